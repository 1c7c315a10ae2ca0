// The JSON files beside the weights, the same bytes as each: config.json, generation_config.json,
// tokenizer_config.json, special_tokens_map.json.
#include "attempt.h"
#include "load/hf_config.h"
#include "load/json.h"
#include "load/quant/scheme.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace octavo;
  using fuzz::attempt;
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  attempt([&] {
    nlohmann::json json = parse_json(text, "fuzz");
    ModelConfig config;
    attempt([&] { stop_ids(parse_config(json, "fuzz")); });
    attempt([&] {
      QuantScheme scheme;
      find_scheme(JsonFields(json, "fuzz").find({"quantization_config"}) ? json["quantization_config"] : json,
                  "fuzz", "model.layers.0.self_attn.q_proj", scheme);
    });
    attempt([&] { parse_generation_config(json, "fuzz", config); });
    attempt([&] { parse_tokenizer_config(json, "fuzz", config); });
  });
  attempt([&] { load_chat_template({.jinja = {}, .tokenizer_config = text, .special_tokens_map = {}}); });
  attempt([&] { load_special_tokens({.jinja = {}, .tokenizer_config = text, .special_tokens_map = text}); });
  return 0;
}
