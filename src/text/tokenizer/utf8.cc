#include "text/tokenizer/utf8.h"

#include <simdjson.h>

#include <cstring>

namespace octavo::tok {

void append_char(char32_t c, std::string& out) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, 8);
    if (word & 0x8080808080808080u) return false;
  }
  for (; i < text.size(); ++i) {
    if (text[i] & 0x80) return false;
  }
  return true;
}

bool is_valid_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

Utf8Prefix utf8_prefix(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {Utf8Prefix::kValid, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Prefix::kInvalid, 1};
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == bytes.size()) return {Utf8Prefix::kIncomplete, i};
    const unsigned b = at(i);
    if (i == 1 ? b < low || b > high : b < 0x80 || b > 0xBF) return {Utf8Prefix::kInvalid, i};
  }
  return {Utf8Prefix::kValid, length};
}

void append_lossy(std::string_view bytes, std::string& out) {
  if (is_valid_utf8(bytes)) {
    out += bytes;
    return;
  }
  while (!bytes.empty()) {
    const Utf8Prefix prefix = utf8_prefix(bytes);
    out += prefix.kind == Utf8Prefix::kValid ? bytes.substr(0, prefix.length) : kReplacementChar;
    bytes.remove_prefix(prefix.length);
  }
}

}  // namespace octavo::tok
