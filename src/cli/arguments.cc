#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
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

/// Plain scalars that read as JSON are that (numbers, true, null); all else is text.
nlohmann::ordered_json to_json(const YAML::Node& node) {
  using Json = nlohmann::ordered_json;
  if (node.IsMap()) {
    Json out = Json::object();
    for (const auto& item : node) out[item.first.as<std::string>()] = to_json(item.second);
    return out;
  }
  if (node.IsSequence()) {
    Json out = Json::array();
    for (const YAML::Node& item : node) out.push_back(to_json(item));
    return out;
  }
  if (node.IsNull()) return nullptr;
  std::string text = node.as<std::string>();
  Json value = node.Tag() == "!" ? Json(Json::value_t::discarded) : Json::parse(text, nullptr, false);
  return value.is_primitive() && !value.is_discarded() ? value : Json(text);
}

void append_value(const std::string& flag, const YAML::Node& value, const std::string& path,
                  std::vector<std::string>& out) {
  if (value.IsSequence()) {
    out.push_back(flag);
    for (const YAML::Node& item : value) out.push_back(item.as<std::string>());
  } else if (value.IsScalar()) {
    std::string text = value.as<std::string>();
    if (text == "true" || text == "True")
      out.push_back(flag);
    else if (text == "false" || text == "False")
      out.push_back("--no-" + flag.substr(2));
    else if (flag == "--model")
      out.push_back(text);  // the positional
    else
      out.insert(out.end(), {flag, text});
  } else if (value.IsMap()) {
    out.insert(out.end(), {flag, to_json(value).dump()});  // such flags take JSON
  } else if (!value.IsNull()) {
    throw Error(path, ": ", flag.substr(2), ": expected a value, a list or a map");
  }
}

}  // namespace

std::vector<std::string> read_config_file(const std::string& path) {
  if (!path.ends_with(".yaml") && !path.ends_with(".yml"))
    throw Error("--config ", path, ": expected a .yaml file");
  YAML::Node root;
  try {
    root = YAML::LoadFile(path);
  } catch (const YAML::Exception& e) {
    throw Error("--config ", path, ": ", e.what());
  }
  if (!root.IsMap()) throw Error("--config ", path, ": expected a map of flags");
  std::vector<std::string> out;
  for (const auto& item : root)
    append_value(normalise("--" + item.first.as<std::string>()), item.second, path, out);
  return out;
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
