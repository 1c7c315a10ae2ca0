#include "load/json.h"

#include <cmath>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"

namespace octavo {
namespace {

constexpr size_t kMaxJsonFile = 64 << 20;

/// A value as it stands in an error message: short, and valid UTF-8 whatever is in it.
std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin, JsonLimits limits) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::unordered_set<std::string>> keys;
  auto check = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > limits.depth) throw Error(origin, ": JSON nested deeper than ", limits.depth, " levels");
    if (!limits.unique_keys) return true;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw Error(origin, ": key ", shown(parsed), " appears twice");
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& e) {
    throw Error(origin, ": not valid JSON: ", e.what());
  }
}

nlohmann::json read_json(const std::string& path) {
  return parse_json(read_text_file(path, kMaxJsonFile), path);
}

JsonFields::JsonFields(const nlohmann::json& object, std::string origin)
    : object_(object), origin_(std::move(origin)) {
  if (!object.is_object()) throw Error(origin_, ": expected a JSON object, found ", shown(object));
}

const nlohmann::json* JsonFields::find(Keys keys) const {
  for (const char* key : keys) {
    auto it = object_.find(key);
    if (it != object_.end() && !it->is_null()) return &*it;
  }
  return nullptr;
}

bool JsonFields::has_null(const char* key) const {
  auto it = object_.find(key);
  return it != object_.end() && it->is_null();
}

void JsonFields::fail(Keys keys, const std::string& expected) const {
  const nlohmann::json* value = find(keys);
  throw Error(origin_, ": ", *keys.begin(), ": ", value ? shown(*value) : "missing", ", expected ", expected);
}

int64_t JsonFields::integer(Keys keys, int64_t fallback, int64_t low, int64_t high) const {
  const nlohmann::json* value = find(keys);
  if (!value) return fallback;
  bool whole = value->is_number_integer();
  // Some published configs hold whole numbers as 8.0.
  if (value->is_number_float()) {
    double number = value->get<double>();
    whole = std::abs(number) < 0x1p53 && number == std::floor(number);
  }
  bool huge = value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (whole && !huge) {
    int64_t number = value->get<int64_t>();
    if (number >= low && number <= high) return number;
  }
  fail(keys, str("an integer in [", low, ", ", high, "]"));
}

double JsonFields::number(Keys keys, double fallback, double low, double high) const {
  const nlohmann::json* value = find(keys);
  if (!value) return fallback;
  if (value->is_number()) {
    double number = value->get<double>();
    if (number >= low && number <= high) return number;  // false for NaN
  }
  fail(keys, str("a number in [", low, ", ", high, "]"));
}

bool JsonFields::boolean(Keys keys, bool fallback) const {
  const nlohmann::json* value = find(keys);
  if (!value) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(keys, "true or false");
}

std::string JsonFields::text(Keys keys, const std::string& fallback) const {
  const nlohmann::json* value = find(keys);
  if (!value) return fallback;
  if (value->is_string()) return value->get<std::string>();
  fail(keys, "a string");
}

}  // namespace octavo
