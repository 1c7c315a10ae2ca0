#include "text/template/unicode.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace octavo::jinja {
namespace {

bool all_ascii(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
char ascii_upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

icu::UnicodeString utf16(std::string_view s) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(s.data(), static_cast<int32_t>(s.size())));
}
std::string utf8(const icu::UnicodeString& s) {
  std::string out;
  s.toUTF8String(out);
  return out;
}

/// Title case of one character with ICU's full mapping ("ß" becomes "Ss").
std::string title_char(std::string_view c) {
  if (c.size() == 1) return std::string(1, ascii_upper(c[0]));
  return utf8(utf16(c).toTitle(nullptr, icu::Locale::getRoot(), U_TITLECASE_NO_LOWERCASE));
}

bool is_cased(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED); }

}  // namespace

bool valid_utf8(std::string_view s) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(s.data());
  const auto size = static_cast<int64_t>(s.size());
  for (int64_t at = 0; at < size;) {
    UChar32 c;
    U8_NEXT(bytes, at, size, c);
    if (c < 0) return false;
  }
  return true;
}

int64_t count_code_points(std::string_view s) {
  // Every string that a template makes is counted, so by words: a byte continues a character if its top bits
  // are 10.
  constexpr uint64_t kLowBits = 0x0101010101010101;
  size_t continuing = 0, at = 0;
  for (; at + 8 <= s.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, s.data() + at, 8);
    continuing += static_cast<size_t>(std::popcount((word >> 7) & (~word >> 6) & kLowBits));
  }
  for (; at < s.size(); ++at) continuing += (s[at] & 0xC0) == 0x80;
  return static_cast<int64_t>(s.size() - continuing);
}

size_t char_bytes(std::string_view s, size_t at) {
  const auto lead = static_cast<unsigned char>(s[at]);
  const size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(n, s.size() - at);
}

char32_t code_point(std::string_view s, size_t at) {
  const size_t n = char_bytes(s, at);
  if (n == 1) return static_cast<unsigned char>(s[at]);
  char32_t c = static_cast<unsigned char>(s[at]) & (0x7Fu >> n);
  for (size_t i = 1; i < n; ++i) c = (c << 6) | (static_cast<unsigned char>(s[at + i]) & 0x3F);
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static constexpr unsigned char kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[tail] | (c >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
}

size_t byte_offset(std::string_view s, int64_t index) {
  size_t at = 0;
  for (; index > 0; --index) at += char_bytes(s, at);
  return at;
}

std::vector<size_t> char_offsets(std::string_view s) {
  std::vector<size_t> out;
  for (size_t at = 0; at < s.size(); at += char_bytes(s, at)) out.push_back(at);
  out.push_back(s.size());
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  constexpr uint32_t kNotPrintable = U_GC_C_MASK | U_GC_Z_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(c)) & kNotPrintable) == 0;
}

bool is_word(char32_t c) {
  return c == '_' || u_isalnum(static_cast<UChar32>(c)) ||
         u_charType(static_cast<UChar32>(c)) == U_OTHER_NUMBER ||
         u_charType(static_cast<UChar32>(c)) == U_LETTER_NUMBER;
}

std::string to_upper(std::string_view s) {
  if (!all_ascii(s)) return utf8(utf16(s).toUpper(icu::Locale::getRoot()));
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), ascii_upper);
  return out;
}

std::string to_lower(std::string_view s) {
  if (!all_ascii(s)) return utf8(utf16(s).toLower(icu::Locale::getRoot()));
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), ascii_lower);
  return out;
}

std::string to_title(std::string_view s) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < s.size();) {
    const std::string_view c = s.substr(at, char_bytes(s, at));
    out += in_word ? to_lower(c) : title_char(c);
    in_word = is_cased(code_point(s, at));
    at += c.size();
  }
  return out;
}

std::string to_capitalised(std::string_view s) {
  if (s.empty()) return {};
  const size_t n = char_bytes(s, 0);
  return title_char(s.substr(0, n)) + to_lower(s.substr(n));
}

std::string_view strip(std::string_view s, bool left, bool right, const std::string_view* chars) {
  const auto drops = [&](size_t at) {
    if (!chars) return is_space(code_point(s, at));
    const std::string_view c = s.substr(at, char_bytes(s, at));
    return chars->find(c) != std::string_view::npos;  // UTF-8 is self-synchronising
  };
  size_t begin = 0, end = s.size();
  while (left && begin < end && drops(begin)) begin += char_bytes(s, begin);
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (s[last] & 0xC0) == 0x80) --last;
    if (!drops(last)) break;
    end = last;
  }
  return s.substr(begin, end - begin);
}

}  // namespace octavo::jinja
