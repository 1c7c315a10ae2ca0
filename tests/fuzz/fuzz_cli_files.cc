// Files and streams that the command line's tools read: the --config YAML, a benchmark's dataset, a server's
// event stream. The same bytes as each.
#include <cstdlib>

#include "attempt.h"
#include "cli/bench_data.h"
#include "cli/command.h"
#include "cli/event_reader.h"
#include "frontend/fake_text.h"

namespace {

using namespace octavo;

std::vector<std::string> events(std::string_view text, size_t piece) {
  std::vector<std::string> out;
  EventReader reader;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    reader.push(text.substr(0, piece), [&](std::string_view event) { out.emplace_back(event); });
  return out;
}

void read_dataset(std::string_view text, const char* name, const char* path) {
  static const FakeText tokens;
  const BenchTokenizer tokenizer{
      .vocab = tokens.vocab(),
      .encode = [](const std::string& prompt) { return tokens.encode(prompt, false); },
      .decode = [](const std::vector<int32_t>& ids) { return tokens.decode(ids, false); }};
  DatasetOptions options;
  options.name = name;
  options.path = path;
  options.num_prompts = 3;
  fuzz::attempt([&] {
    for (const BenchRequest& request : dataset_requests(text, options, tokenizer))
      if (request.output_len < 1) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (events(text, 1) != events(text, size)) std::abort();
  fuzz::attempt([&] { parse_config_file(std::string(text), "fuzz"); });
  for (const char* path : {"fuzz.json", "fuzz.jsonl"})
    for (const char* name : {"sharegpt", "custom"}) read_dataset(text, name, path);
  return 0;
}
