// {"String": ...} or {"Regex": ...} of a tokenizer.json: what Split and Replace search for.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "text/tokenizer/regex.h"
#include "text/tokenizer/scanner.h"
#include "text/tokenizer/span.h"

namespace octavo::tok {

class JsonView;

class Pattern {
 public:
  static Pattern literal(std::string text) { return Pattern(std::move(text)); }
  static Pattern regex(std::string_view pattern, const std::string& where);
  static Pattern from_json(const JsonView& json);

  /// Appends the matches from left to right, without overlap.
  void find_all(std::string_view text, Spans& out) const;

  /// The literal text, or null if this is a regular expression.
  const std::string* literal_text() const { return std::get_if<std::string>(&kind_); }

 private:
  explicit Pattern(std::variant<std::string, Regex, Scanner> kind) : kind_(std::move(kind)) {}

  std::variant<std::string, Regex, Scanner> kind_;
};

}  // namespace octavo::tok
