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

/// A pass over the text before it becomes a value. (The library's parser callback could check the same, but
/// it walks the parent at the end of every child: a header of 100,000 tensors took minutes.)
class LimitChecker : public nlohmann::json_sax<nlohmann::json> {
 public:
  LimitChecker(const std::string& origin, JsonLimits limits) : origin_(origin), limits_(limits) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(size_t) override {
    if (limits_.unique_keys) keys_.emplace_back();
    return enter();
  }
  bool end_object() override {
    if (limits_.unique_keys) keys_.pop_back();
    return leave();
  }
  bool start_array(size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool key(std::string& name) override {
    if (limits_.unique_keys && !keys_.back().insert(name).second)
      throw Error(origin_, ": key ", shown(name), " appears twice");
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& e) override {
    throw Error(origin_, ": not valid JSON: ", e.what());
  }

 private:
  bool enter() {
    if (++depth_ > limits_.depth)
      throw Error(origin_, ": JSON nested deeper than ", limits_.depth, " levels");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  const std::string& origin_;
  JsonLimits limits_;
  int depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& origin, JsonLimits limits) {
  LimitChecker checker(origin, limits);
  try {
    nlohmann::json::sax_parse(text, &checker);
    return nlohmann::json::parse(text);
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
