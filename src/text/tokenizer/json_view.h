// A value of a tokenizer.json together with where it stands, so that each complaint names the file and the
// place. simdjson rather than nlohmann-json: Gemma 3's file has 14 MB in our goldens and 1.3 million strings.
#pragma once

#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace octavo::tok {

class JsonView {
 public:
  JsonView(simdjson::dom::element element, std::string where) : element_(element), where_(std::move(where)) {}

  const simdjson::dom::element& element() const { return element_; }
  const std::string& where() const { return where_; }

  /// The member, or nothing if it is absent or null.
  std::optional<JsonView> find(std::string_view key) const {
    simdjson::dom::element value;
    if (element_[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return JsonView(value, str(where_, ".", key));
  }
  JsonView at(std::string_view key) const {
    std::optional<JsonView> value = find(key);
    if (!value) throw Error(where_, ": \"", key, "\" is missing");
    return *value;
  }

  std::string_view text() const { return get<std::string_view>("a string"); }
  bool boolean() const { return get<bool>("true or false"); }
  int64_t integer() const { return get<int64_t>("an integer"); }
  double number() const { return get<double>("a number"); }
  simdjson::dom::array array() const { return get<simdjson::dom::array>("an array"); }
  simdjson::dom::object object() const { return get<simdjson::dom::object>("an object"); }
  std::vector<JsonView> items() const {
    std::vector<JsonView> result;
    for (simdjson::dom::element item : array())
      result.emplace_back(item, str(where_, "[", result.size(), "]"));
    return result;
  }

  std::string_view text(std::string_view key) const { return at(key).text(); }
  std::string_view text_or(std::string_view key, std::string_view other) const {
    const auto value = find(key);
    return value ? value->text() : other;
  }
  bool boolean_or(std::string_view key, bool other) const {
    const auto value = find(key);
    return value ? value->boolean() : other;
  }
  int64_t integer_or(std::string_view key, int64_t other) const {
    const auto value = find(key);
    return value ? value->integer() : other;
  }

  [[noreturn]] void unknown(std::string_view what, std::string_view value, std::string_view known) const {
    throw Error(where_, ": unknown ", what, " \"", value, "\"; known: ", known);
  }

 private:
  template <class T>
  T get(const char* expected) const {
    T value;
    if (element_.get(value) != simdjson::SUCCESS) throw Error(where_, ": expected ", expected);
    return value;
  }

  simdjson::dom::element element_;
  std::string where_;
};

}  // namespace octavo::tok
