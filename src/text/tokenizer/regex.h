// Oniguruma's regular expressions (what tokenizer.json is written in) on PCRE2 with its JIT.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/span.h"

namespace octavo::tok {

/// `pattern` in PCRE2's dialect. What differs for the patterns of tokenizers: \s and \w are other character
/// sets, \h is a hexadecimal digit, {n,m}+ repeats the repetition (PCRE2: possessive).
std::string pcre2_from_oniguruma(std::string_view pattern);

class Regex {
 public:
  /// Error, which starts with `where`, if the pattern does not compile.
  Regex(std::string_view pattern, const std::string& where);

  /// Appends all matches, left to right, without overlap. An empty match is possible; Error if the pattern
  /// backtracks beyond all reason on this text.
  void find_all(std::string_view text, Spans& out) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;  // compiled once, used by any number of threads
};

}  // namespace octavo::tok
