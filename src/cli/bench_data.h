// Requests of the benchmarks: random lengths, or conversations and prompts of a file (surface document,
// sections 1.5, 1.6).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace octavo {

struct BenchRequest {
  std::string text;          ///< empty: use ids
  std::vector<int32_t> ids;  ///< of the prompt; may be empty where only text is known
  int64_t output_len = 0;
};

struct DatasetOptions {
  std::string name = "random";  ///< random, sharegpt, custom, prefix_repetition
  std::string path{};
  int64_t num_prompts = 1000;
  int64_t input_len = 1024, output_len = 128;
  std::string range_ratio =
      "0.0";               ///< lengths are uniform in len * (1 +- ratio); or JSON {"input": r, "output": r}
  int64_t prefix_len = 0;  ///< of random: tokens that all prompts share
  int64_t repetition_prefix_len = 256, repetition_suffix_len = 256, num_prefixes = 10,
          repetition_output_len = 128;
  int64_t fixed_output_len = 0;  ///< --sharegpt-output-len, --custom-output-len; 0: the file's
  uint64_t seed = 0;
};

/// What making prompts needs of a tokenizer, local or the server's.
struct BenchTokenizer {
  int64_t vocab = 0;
  std::function<std::vector<int32_t>(const std::string&)> encode;
  std::function<std::string(const std::vector<int32_t>&)> decode;
};

void add_dataset_flags(CLI::App& app, DatasetOptions& options);
/// Of the datasets that come as a file (sharegpt, custom): `text` is what options.path holds. Error naming
/// it.
std::vector<BenchRequest> dataset_requests(std::string_view text, const DatasetOptions& options,
                                           const BenchTokenizer& tokenizer);
/// Error naming the flag or the file. `as_text`: random prompts as text too.
std::vector<BenchRequest> make_requests(const DatasetOptions& options, const BenchTokenizer& tokenizer,
                                        bool as_text);

}  // namespace octavo
