// UTF-8 for the tokenizer. Text inside the tokenizer is always valid: Tokenizer::encode repairs what comes
// from outside once, so everything below it may decode without checks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::tok {

inline constexpr std::string_view kReplacementChar = "\xEF\xBF\xBD";  // U+FFFD

/// Length in bytes of the character that starts with `lead`; the text is valid.
inline int char_length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

/// Decodes the character at p (valid text, not at its end) and moves p behind it.
inline char32_t next_char(const char*& p) {
  const auto* b = reinterpret_cast<const unsigned char*>(p);
  const int n = char_length(*p);
  p += n;
  switch (n) {
    case 1:
      return b[0];
    case 2:
      return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    case 3:
      return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    default:
      return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
  }
}

/// Decodes the character that ends at p (valid text, not at its start) and moves p to its first byte.
inline char32_t previous_char(const char*& p) {
  do --p;
  while ((*p & 0xC0) == 0x80);
  const char* q = p;
  return next_char(q);
}

void append_char(char32_t c, std::string& out);
bool is_ascii(std::string_view text);
bool is_valid_utf8(std::string_view text);

/// What stands at the start of a byte string that is not empty.
struct Utf8Prefix {
  enum Kind { kValid, kInvalid, kIncomplete } kind;
  int length;  // bytes: the character, the ill-formed part (one U+FFFD), or the unfinished rest
};
Utf8Prefix utf8_prefix(std::string_view bytes);

/// Appends bytes to out; each maximal ill-formed part becomes one U+FFFD (the practice that the Unicode
/// standard recommends, and what Rust's from_utf8_lossy and Python's errors="replace" do).
void append_lossy(std::string_view bytes, std::string& out);

}  // namespace octavo::tok
