// The chat template interpreter on arbitrary sources: it must compile or refuse, render or fail, within its
// limits.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/chat_template.h"
#include "text/template/jinja_cases.h"
#include "text/template/template.h"

namespace {

const nlohmann::ordered_json& context() {
  static const auto json = [] {
    auto all = nlohmann::ordered_json::parse(octavo::jinja::kCaseContext);
    all.update(nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "S"},
                 {"role": "user", "content": [{"type": "text", "text": "héllo 😀"}]},
                 {"role": "assistant", "content": "a", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": null, "i": -3})"));
    return all;
  }();
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  octavo::TemplateLimits limits;
  limits.steps = 200'000;
  limits.output_bytes = 1 << 20;
  limits.memory_bytes = 16 << 20;
  try {
    octavo::jinja::Template(source, limits).render(context(), 1749990896);
    octavo::ChatTemplate(std::string(source)).content_format();
  } catch (const octavo::Error&) {
  }
  return 0;
}
