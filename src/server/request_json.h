// JSON of request bodies: bounded before it is parsed, then read field by field; every fault is an ApiError
// 400 that names the field. Unknown fields are ignored, as clients of the OpenAI API expect.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/message.h"

namespace octavo {

/// Keeps the order of keys: templates print objects as the client wrote them.
using Json = nlohmann::ordered_json;

/// nlohmann's parser and destructor recurse, so depth is limited by a scan of the text first.
inline constexpr int kMaxJsonDepth = 128;

/// An ordered object compares each key with all before it: 100,000 keys in a body of 1 MB took 12 s. These
/// comparisons take 0.2 s; one object may have 10,000 keys.
inline constexpr int64_t kMaxKeyComparisons = 50'000'000;

/// The body as an object. Also checks the content type.
Json parse_body(const HttpRequest& request);
/// An object from text, with the same limits.
Json parse_object(std::string_view text);
/// True if brackets nest deeper than `limit` (strings aside; the text need not be valid).
bool nests_deeper(std::string_view text, int limit);
/// True if parsing would take more than kMaxKeyComparisons. The text must not nest deeper than it may.
bool has_costly_keys(std::string_view text);

/// One line of JSON that any client can read: invalid UTF-8 becomes U+FFFD, nothing throws.
std::string dump(const Json& value);

/// A typed view of one object; null counts as absent.
class Fields {
 public:
  explicit Fields(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  const Json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  std::optional<int64_t> integer(const char* key) const;
  std::optional<double> number(const char* key) const;
  std::optional<std::string> text(const char* key) const;
  bool flag(const char* key, bool fallback) const;
  const Json* object(const char* key) const;
  const Json* array(const char* key) const;
  std::vector<int64_t> integers(const char* key) const;
  std::vector<std::string> texts(const char* key) const;
  [[noreturn]] void fail(const char* key, const std::string& expected) const;
  std::string path(const char* key) const { return prefix_ + key; }

 private:
  const Json& object_;
  std::string prefix_;
};

/// An integer of any JSON number that holds one exactly.
std::optional<int64_t> as_integer(const Json& value);

}  // namespace octavo
