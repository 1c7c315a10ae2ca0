// config.json, and the same bytes as generation_config.json and tokenizer_config.json.
#include "base/error.h"
#include "load/hf_config.h"
#include "load/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(bytes), size);
  auto attempt = [&](auto&& f) {
    try {
      f();
    } catch (const octavo::Error&) {
    }
  };
  attempt([&] {
    nlohmann::json json = octavo::parse_json(text, "fuzz");
    octavo::ModelConfig config;
    attempt([&] { octavo::stop_ids(octavo::parse_config(json, "fuzz")); });
    attempt([&] { octavo::parse_generation_config(json, "fuzz", config); });
    attempt([&] { octavo::parse_tokenizer_config(json, "fuzz", config); });
  });
  return 0;
}
