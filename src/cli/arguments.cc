#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/command.h"

namespace octavo {
namespace {

const std::map<std::string, std::string> kShortForms = {
    {"-tp", "--tensor-parallel-size"}, {"-pp", "--pipeline-parallel-size"},
    {"-dp", "--data-parallel-size"},   {"-asc", "--api-server-count"},
    {"-cc", "--compilation-config"},   {"-ep", "--enable-expert-parallel"},
    {"-sc", "--speculative-config"},   {"-O0", "--optimization-level=0"},
    {"-O1", "--optimization-level=1"}, {"-O2", "--optimization-level=2"},
    {"-O3", "--optimization-level=3"}};

std::string normalise(const std::string& argument) {
  auto alias = kShortForms.find(argument);
  if (alias != kShortForms.end()) return alias->second;
  if (!argument.starts_with("--")) return argument;
  std::string out = argument;
  std::replace(out.begin(), out.begin() + static_cast<ptrdiff_t>(std::min(out.find('='), out.size())), '_',
               '-');
  return out;
}

/// A YAML document as arguments. Aliases may make it endless (a list that holds itself) or explode (each
/// level names the one below ten times), so the values are counted.
class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path) {}

  std::vector<std::string> arguments(const YAML::Node& root) {
    if (!root.IsMap()) fail("expected a map of flags");
    for (const auto& item : root) append(normalise("--" + text(item.first)), item.second);
    return std::move(out_);
  }

 private:
  static constexpr int kMaxValues = 10'000, kMaxDepth = 32;

  [[noreturn]] void fail(const std::string& what) const { throw Error("--config ", path_, ": ", what); }

  std::string text(const YAML::Node& node) {
    if (++values_ > kMaxValues) fail(str("more than ", kMaxValues, " values"));
    if (!node.IsScalar()) fail("expected a plain value as a name and within a list");
    return node.as<std::string>();
  }

  /// Plain scalars that read as JSON are that (numbers, true, null); all else is text.
  nlohmann::ordered_json json(const YAML::Node& node, int depth) {
    using Json = nlohmann::ordered_json;
    if (++values_ > kMaxValues || depth > kMaxDepth)
      fail(str("more than ", kMaxValues, " values or ", kMaxDepth, " levels"));
    if (node.IsMap()) {
      Json out = Json::object();
      for (const auto& item : node) out[text(item.first)] = json(item.second, depth + 1);
      return out;
    }
    if (node.IsSequence()) {
      Json out = Json::array();
      for (const YAML::Node& item : node) out.push_back(json(item, depth + 1));
      return out;
    }
    if (node.IsNull()) return nullptr;
    std::string scalar = text(node);
    Json value = node.Tag() == "!" ? Json(Json::value_t::discarded) : Json::parse(scalar, nullptr, false);
    return value.is_primitive() && !value.is_discarded() ? value : Json(scalar);
  }

  void append(const std::string& flag, const YAML::Node& value) {
    if (value.IsSequence()) {
      out_.push_back(flag);
      for (const YAML::Node& item : value) out_.push_back(text(item));
    } else if (value.IsScalar()) {
      append_scalar(flag, text(value));
    } else if (value.IsMap()) {  // such flags take JSON
      out_.insert(out_.end(),
                  {flag, json(value, 0).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    } else if (!value.IsNull()) {
      fail(flag.substr(2) + ": expected a value, a list or a map");
    }
  }

  void append_scalar(const std::string& flag, const std::string& value) {
    if (value == "true" || value == "True")
      out_.push_back(flag);
    else if (value == "false" || value == "False")
      out_.push_back("--no-" + flag.substr(2));
    else if (flag == "--model")
      out_.push_back(value);  // the positional
    else
      out_.insert(out_.end(), {flag, value});
  }

  const std::string& path_;
  int values_ = 0;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> parse_config_file(const std::string& text, const std::string& path) {
  try {
    return ConfigReader(path).arguments(YAML::Load(text));
  } catch (const YAML::Exception& e) {
    throw Error("--config ", path, ": ", e.what());
  }
}

std::vector<std::string> read_config_file(const std::string& path) {
  constexpr size_t kMaxFile = 1 << 20;
  if (!path.ends_with(".yaml") && !path.ends_with(".yml"))
    throw Error("--config ", path, ": expected a .yaml file");
  return parse_config_file(read_text_file(path, kMaxFile), path);
}

std::vector<std::string> normalise_arguments(const std::vector<std::string>& arguments) {
  std::vector<std::string> out, config;
  size_t command_words = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = normalise(arguments[i]);
    if (argument == "--") {
      out.insert(out.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    bool separate = argument == "--config" && i + 1 < arguments.size();
    if (!separate && !argument.starts_with("--config=")) {
      if (i == command_words && command_words < (arguments[0] == "bench" ? 2u : 1u) &&
          !argument.starts_with("-"))
        ++command_words;
      out.push_back(std::move(argument));
      continue;
    }
    if (!config.empty()) throw Error("--config may be given only once");
    config = read_config_file(separate ? arguments[++i] : argument.substr(9));
  }
  // A MODEL on the command line replaces the file's, which would be a second positional.
  bool has_model = out.size() > command_words && !out[command_words].starts_with("-");
  if (has_model && !config.empty() && !config[0].starts_with("-")) config.erase(config.begin());
  // Behind the MODEL: a list that ends the file would take it in.
  size_t at = command_words + (has_model ? 1 : 0);
  out.insert(out.begin() + static_cast<ptrdiff_t>(at), config.begin(), config.end());
  return out;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0]++;
      for (size_t j = 1; j <= candidate.size(); ++j) {
        size_t replaced = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < best_distance) best_distance = row.back(), best = candidate;
  }
  return best;
}

}  // namespace octavo
