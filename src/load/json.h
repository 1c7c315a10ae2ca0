// JSON from outside: bounded nesting, typed and range-checked access, errors that name the file and the key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace octavo {

struct JsonLimits {
  int depth = 64;
  bool unique_keys =
      false;  ///< refuse an object that has a key twice (otherwise the last one counts, as in Python)
};

/// `origin` (a file) starts every message. Error on bad syntax, bad UTF-8, or a limit passed.
nlohmann::json parse_json(std::string_view text, const std::string& origin, JsonLimits limits = {});

/// parse_json of a file of at most 64 MB.
nlohmann::json read_json(const std::string& path);

/// Typed access to one object. Each getter takes the key's aliases, newest name first; a missing or null key
/// gives the fallback; a value of another type or out of range is an Error that names origin and key.
class JsonFields {
 public:
  using Keys = std::initializer_list<const char*>;

  JsonFields(const nlohmann::json& object, std::string origin);  ///< Error if not an object

  const nlohmann::json* find(Keys keys) const;  ///< first alias that is present and not null
  bool has_null(const char* key) const;         ///< present, with the value null
  int64_t integer(Keys keys, int64_t fallback, int64_t low, int64_t high) const;
  double number(Keys keys, double fallback, double low, double high) const;
  bool boolean(Keys keys, bool fallback) const;
  std::string text(Keys keys, const std::string& fallback) const;
  [[noreturn]] void fail(Keys keys, const std::string& expected) const;

  const std::string& origin() const { return origin_; }
  const nlohmann::json& object() const { return object_; }

 private:
  const nlohmann::json& object_;
  std::string origin_;
};

}  // namespace octavo
