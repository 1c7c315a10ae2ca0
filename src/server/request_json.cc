#include "server/request_json.h"

#include <cmath>
#include <vector>

#include "frontend/api_error.h"

namespace octavo {

namespace {

/// f(c) for each character outside strings; stops when it returns false.
template <class F>
void scan(std::string_view text, const F& f) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && !f(c))
      return;
  }
}

}  // namespace

bool nests_deeper(std::string_view text, int limit) {
  int depth = 0;
  scan(text, [&](char c) {
    if (c == '[' || c == '{') return ++depth <= limit;
    depth -= c == ']' || c == '}';
    return true;
  });
  return depth > limit;
}

bool has_costly_keys(std::string_view text) {
  std::vector<int64_t> keys{0};  // so far, of each object that is open
  int64_t comparisons = 0;
  scan(text, [&](char c) {
    if (c == '[' || c == '{') keys.push_back(0);
    if ((c == ']' || c == '}') && keys.size() > 1) keys.pop_back();
    if (c == ':') comparisons += keys.back()++;
    return comparisons <= kMaxKeyComparisons;
  });
  return comparisons > kMaxKeyComparisons;
}

Json parse_object(std::string_view text) {
  if (nests_deeper(text, kMaxJsonDepth))
    throw ApiError(400, "Bad Request", str("The JSON body nests deeper than ", kMaxJsonDepth, " levels."));
  if (has_costly_keys(text))
    throw ApiError(400, "Bad Request", "An object of the JSON body has too many keys.");
  Json body;
  try {
    body = Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    throw ApiError(400, "Bad Request", str("The body is not valid JSON: error near byte ", e.byte, "."));
  } catch (const nlohmann::json::exception& e) {
    throw ApiError(400, "Bad Request", "The body is not valid JSON: a number is out of range.");
  }
  if (!body.is_object())
    throw ApiError(400, "Bad Request", "1 validation error: the body must be a JSON object.");
  return body;
}

Json parse_body(const HttpRequest& request) {
  std::string_view type = request.header("content-type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  std::string lower(type);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower != "application/json")
    throw ApiError(400, "Bad Request", "Unsupported Media Type: Only 'application/json' is allowed");
  return parse_object(request.body);
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

const Json* Fields::find(const char* key) const {
  auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void Fields::fail(const char* key, const std::string& expected) const {
  throw ApiError(400, "Bad Request", str("1 validation error: ", path(key), ": expected ", expected, "."),
                 path(key));
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    uint64_t v = value.get<uint64_t>();
    return v <= INT64_MAX ? std::optional<int64_t>(static_cast<int64_t>(v)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  double v = value.get<double>();
  if (std::floor(v) != v || std::abs(v) > 9e15) return std::nullopt;
  return static_cast<int64_t>(v);
}

std::optional<int64_t> Fields::integer(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  auto out = as_integer(*value);
  if (!out) fail(key, "an integer of 64 bits");
  return out;
}

std::optional<double> Fields::number(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number()) fail(key, "a number");
  return value->get<double>();
}

std::optional<std::string> Fields::text(const char* key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_string()) fail(key, "a string");
  return value->get<std::string>();
}

bool Fields::flag(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) fail(key, "true or false");
  return value->get<bool>();
}

const Json* Fields::object(const char* key) const {
  const Json* value = find(key);
  if (value && !value->is_object()) fail(key, "an object");
  return value;
}

const Json* Fields::array(const char* key) const {
  const Json* value = find(key);
  if (value && !value->is_array()) fail(key, "an array");
  return value;
}

std::vector<int64_t> Fields::integers(const char* key) const {
  std::vector<int64_t> out;
  if (const Json* list = array(key))
    for (const Json& item : *list) {
      auto value = as_integer(item);
      if (!value) fail(key, "an array of integers");
      out.push_back(*value);
    }
  return out;
}

std::vector<std::string> Fields::texts(const char* key) const {
  const Json* value = find(key);
  if (!value) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> out;
  if (!value->is_array()) fail(key, "a string or an array of strings");
  for (const Json& item : *value) {
    if (!item.is_string()) fail(key, "a string or an array of strings");
    out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace octavo
