#include "cli/bench_data.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "cli/statistics.h"

namespace octavo {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

/// Tokens or prompts; more is a mistake in a flag or file.
constexpr int64_t kMaxLength = int64_t{1} << 30;

struct Ratios {
  double input = 0, output = 0;
};

/// 0 where there is none, -1 for what is no number.
double ratio_at(const Json& object, const char* key) {
  auto it = object.find(key);
  return it == object.end() ? 0 : it->is_number() ? it->get<double>() : -1;
}

Ratios parse_ratios(const std::string& text) {
  Json value = Json::parse(text, nullptr, false);
  Ratios out;
  if (value.is_number())
    out = {value.get<double>(), value.get<double>()};
  else if (value.is_object())
    out = {ratio_at(value, "input"), ratio_at(value, "output")};
  else
    out.input = -1;
  if (out.input < 0 || out.input >= 1 || out.output < 0 || out.output >= 1)
    throw Error("--random-range-ratio ", text,
                ": expected a number or {\"input\": r, \"output\": r}, ratios in [0, 1)");
  return out;
}

int64_t vary(int64_t length, double ratio, Random& random) {
  int64_t low = static_cast<int64_t>(static_cast<double>(length) * (1 - ratio));
  int64_t high = static_cast<int64_t>(static_cast<double>(length) * (1 + ratio));
  return std::max<int64_t>(1, std::uniform_int_distribution<int64_t>(low, high)(random));
}

/// Ordinary ids: the first few of a vocabulary are often special.
std::vector<int32_t> random_ids(int64_t count, int64_t vocab, Random& random) {
  int64_t first = std::min<int64_t>(vocab / 4, 300);
  std::uniform_int_distribution<int32_t> pick(static_cast<int32_t>(first),
                                              static_cast<int32_t>(vocab - vocab / 50 - 1));
  std::vector<int32_t> out(count);
  for (int32_t& id : out) id = pick(random);
  return out;
}

/// Text that has about as many tokens as ids: random ids rarely survive decode and encode unchanged.
BenchRequest from_ids(std::vector<int32_t> ids, int64_t output_len, const BenchTokenizer& tokenizer,
                      bool as_text) {
  BenchRequest out{.text = {}, .ids = std::move(ids), .output_len = output_len};
  if (!as_text) return out;
  size_t wanted = out.ids.size();
  out.text = tokenizer.decode(out.ids);
  std::vector<int32_t> again = tokenizer.encode(out.text);
  if (again.size() > wanted) {
    again.resize(wanted);
    out.text = tokenizer.decode(again);
  }
  out.ids = std::move(again);
  return out;
}

std::vector<BenchRequest> random_requests(const DatasetOptions& o, const BenchTokenizer& tokenizer,
                                          bool as_text) {
  Random random(o.seed);
  Ratios ratios = parse_ratios(o.range_ratio);
  std::vector<int32_t> prefix = random_ids(o.prefix_len, tokenizer.vocab, random);
  std::vector<BenchRequest> out;
  for (int64_t i = 0; i < o.num_prompts; ++i) {
    std::vector<int32_t> ids = prefix,
                         rest = random_ids(vary(o.input_len, ratios.input, random), tokenizer.vocab, random);
    ids.insert(ids.end(), rest.begin(), rest.end());
    out.push_back(from_ids(std::move(ids), vary(o.output_len, ratios.output, random), tokenizer, as_text));
  }
  return out;
}

std::vector<BenchRequest> prefix_requests(const DatasetOptions& o, const BenchTokenizer& tokenizer,
                                          bool as_text) {
  Random random(o.seed);
  std::vector<std::vector<int32_t>> prefixes;
  for (int64_t i = 0; i < o.num_prefixes; ++i)
    prefixes.push_back(random_ids(o.repetition_prefix_len, tokenizer.vocab, random));
  std::vector<BenchRequest> out;
  for (int64_t i = 0; i < o.num_prompts; ++i) {
    std::vector<int32_t> ids = prefixes[i % o.num_prefixes],
                         rest = random_ids(o.repetition_suffix_len, tokenizer.vocab, random);
    ids.insert(ids.end(), rest.begin(), rest.end());
    out.push_back(from_ids(std::move(ids), o.repetition_output_len, tokenizer, as_text));
  }
  return out;
}

Json parse_dataset(std::string_view text, const std::string& path) {
  if (!path.ends_with(".jsonl")) {
    Json out = Json::parse(text, nullptr, false);
    if (!out.is_array()) throw Error("--dataset-path ", path, ": expected a JSON array");
    return out;
  }
  Json out = Json::array();
  for (size_t start = 0, line = 1; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view object = text.substr(start, end - start);
    start = end + 1;
    if (object.find_first_not_of(" \t\r") == object.npos) continue;
    Json item = Json::parse(object, nullptr, false);
    if (!item.is_object()) throw Error("--dataset-path ", path, ": line ", line, ": expected a JSON object");
    out.push_back(std::move(item));
  }
  return out;
}

/// The text at a key of an object; empty where either is of another kind.
std::string text_at(const Json& object, const char* key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

/// First two turns; lengths outside vLLM's bounds are left out.
void add_conversation(const Json& item, const DatasetOptions& o, const BenchTokenizer& tokenizer,
                      std::vector<BenchRequest>& out) {
  auto turns = item.find("conversations");
  if (turns == item.end() || !turns->is_array() || turns->size() < 2) return;
  std::string prompt = text_at((*turns)[0], "value"), reply = text_at((*turns)[1], "value");
  BenchRequest request{.text = prompt, .ids = tokenizer.encode(prompt), .output_len = o.fixed_output_len};
  if (request.output_len == 0) request.output_len = static_cast<int64_t>(tokenizer.encode(reply).size());
  int64_t length = static_cast<int64_t>(request.ids.size());
  if (length < 4 || length > 1024 || request.output_len < 4 || length + request.output_len > 2048) return;
  out.push_back(std::move(request));
}

void add_custom(const Json& item, const DatasetOptions& o, const BenchTokenizer& tokenizer,
                std::vector<BenchRequest>& out) {
  constexpr int64_t kDefault = 256;
  std::string prompt = text_at(item, "prompt");
  if (prompt.empty()) return;
  int64_t length = o.fixed_output_len;
  if (length == 0) {
    auto it = item.find("output_tokens");
    if (it != item.end() && (!it->is_number_integer() || *it < 1 || *it > kMaxLength))
      throw Error("--dataset-path ", o.path, ": output_tokens of a prompt is not an integer in [1, ",
                  kMaxLength, "]");
    length = it != item.end() ? it->get<int64_t>() : kDefault;
  }
  out.push_back({prompt, tokenizer.encode(prompt), length});
}

std::vector<BenchRequest> file_requests(const DatasetOptions& o, const BenchTokenizer& tokenizer) {
  if (o.path.empty()) throw Error("--dataset-name ", o.name, " needs --dataset-path");
  return dataset_requests(read_file("--dataset-path", o.path), o, tokenizer);
}

void check_lengths(const DatasetOptions& o) {
  auto check = [](const char* flag, int64_t value, int64_t low) {
    if (value < low || value > kMaxLength)
      throw Error(flag, " ", value, ": expected ", low, " to ", kMaxLength);
  };
  check("--num-prompts", o.num_prompts, 1);
  check("--random-input-len", o.input_len, 1);
  check("--random-output-len", o.output_len, 1);
  check("--random-prefix-len", o.prefix_len, 0);
  check("--prefix-repetition-prefix-len", o.repetition_prefix_len, 0);
  check("--prefix-repetition-suffix-len", o.repetition_suffix_len, 1);
  check("--prefix-repetition-num-prefixes", o.num_prefixes, 1);
  check("--prefix-repetition-output-len", o.repetition_output_len, 1);
  check("--sharegpt-output-len", o.fixed_output_len, 0);
}

}  // namespace

void add_dataset_flags(CLI::App& app, DatasetOptions& o) {
  const char* group = "Dataset";
  app.add_option("--dataset-name", o.name, "random, sharegpt, custom or prefix_repetition")
      ->group(group)
      ->capture_default_str();
  app.add_option("--dataset-path", o.path, "JSON or JSONL file")->group(group);
  app.add_option("--num-prompts", o.num_prompts, "Requests")->group(group)->capture_default_str();
  app.add_option("--random-input-len,--input-len", o.input_len, "Prompt tokens")
      ->group(group)
      ->capture_default_str();
  app.add_option("--random-output-len,--output-len", o.output_len, "Tokens to generate")
      ->group(group)
      ->capture_default_str();
  app.add_option("--random-range-ratio", o.range_ratio, "Lengths vary by this ratio")
      ->group(group)
      ->capture_default_str();
  app.add_option("--random-prefix-len,--prefix-len", o.prefix_len, "Tokens that all random prompts share")
      ->group(group)
      ->capture_default_str();
  app.add_option("--prefix-repetition-prefix-len", o.repetition_prefix_len, "")
      ->group(group)
      ->capture_default_str();
  app.add_option("--prefix-repetition-suffix-len", o.repetition_suffix_len, "")
      ->group(group)
      ->capture_default_str();
  app.add_option("--prefix-repetition-num-prefixes", o.num_prefixes, "")->group(group)->capture_default_str();
  app.add_option("--prefix-repetition-output-len", o.repetition_output_len, "")
      ->group(group)
      ->capture_default_str();
  app.add_option("--sharegpt-output-len,--custom-output-len", o.fixed_output_len, "Instead of the file's")
      ->group(group);
}

std::vector<BenchRequest> dataset_requests(std::string_view text, const DatasetOptions& o,
                                           const BenchTokenizer& tokenizer) {
  Json data = parse_dataset(text, o.path);
  std::shuffle(data.begin(), data.end(), Random(o.seed));
  std::vector<BenchRequest> out;
  for (const Json& item : data) {
    if (static_cast<int64_t>(out.size()) >= o.num_prompts) break;
    if (item.is_object()) (o.name == "sharegpt" ? add_conversation : add_custom)(item, o, tokenizer, out);
  }
  if (out.empty()) throw Error("--dataset-path ", o.path, ": no usable prompt for --dataset-name ", o.name);
  size_t distinct = out.size();  // small files are repeated
  while (static_cast<int64_t>(out.size()) < o.num_prompts) out.push_back(out[out.size() % distinct]);
  return out;
}

std::vector<BenchRequest> make_requests(const DatasetOptions& options, const BenchTokenizer& tokenizer,
                                        bool as_text) {
  check_lengths(options);
  if (options.name == "random") return random_requests(options, tokenizer, as_text);
  if (options.name == "prefix_repetition") return prefix_requests(options, tokenizer, as_text);
  if (options.name == "sharegpt" || options.name == "custom") return file_requests(options, tokenizer);
  throw Error("--dataset-name ", options.name, ": expected random, sharegpt, custom or prefix_repetition");
}

}  // namespace octavo
