#include "text/tokenizer/scanner.h"

#include "text/tokenizer/char_class.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
const std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

// A read position. Past the end the class is 0 and the byte 0, so that most rules need no test for the end.
class Cursor {
 public:
  Cursor(std::string_view text)
      : begin_(text.data()), end_(text.data() + text.size()), classes_(CharClasses::instance()) {}

  const char* end() const { return end_; }
  bool at_end(const char* p) const { return p == end_; }
  char byte(const char* p) const { return p < end_ ? *p : '\0'; }
  uint32_t offset(const char* p) const { return static_cast<uint32_t>(p - begin_); }

  struct Char {
    uint8_t classes;   // 0 at the end
    const char* next;  // behind it
  };
  Char at(const char* p) const {
    if (p == end_) return {0, p};
    const char32_t c = next_char(p);
    return {classes_(c), p};
  }
  /// Skips characters that have any of the classes.
  const char* skip(const char* p, uint8_t any) const {
    for (Char c = at(p); c.classes & any; c = at(p)) p = c.next;
    return p;
  }
  /// Skips characters that have none of the classes.
  const char* skip_other(const char* p, uint8_t none) const {
    while (p != end_) {
      const Char c = at(p);
      if (c.classes & none) break;
      p = c.next;
    }
    return p;
  }

 private:
  const char* begin_;
  const char* end_;
  const CharClasses& classes_;
};

bool is_newline(char byte) { return byte == '\r' || byte == '\n'; }

// 's 't 're 've 'm 'll 'd at p; its end, or p if there is none. Ignoring case, U+017F (long s) is an s.
const char* skip_contraction(const Cursor& text, const char* p, bool ignore_case) {
  if (text.byte(p) != '\'' || p + 1 == text.end()) return p;
  const char mask = ignore_case ? 0x20 : 0;
  const char a = static_cast<char>(p[1] | mask);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  const char second = text.byte(p + 2);
  if (ignore_case && p[1] == '\xC5' && second == '\xBF') return p + 3;
  const char b = static_cast<char>(second | mask);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
  return p;
}

// \s+(?!\S)|\s+ at a space: the whole run at the end of the text, else all of it but the last character.
const char* skip_spaces(const Cursor& text, const char* p) {
  const char* run = text.skip(p, kSpace);
  if (text.at_end(run)) return run;
  const char* last = run;
  previous_char(last);
  return last > p ? last : run;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a space: up to the last line break of the run if it has one.
const char* skip_spaces_or_lines(const Cursor& text, const char* p) {
  const char* run = text.skip(p, kSpace);
  for (const char* q = run; q != p; --q) {
    if (is_newline(q[-1])) return q;
  }
  return skip_spaces(text, p);
}

const char* next_gpt2(const Cursor& text, const char* p) {
  if (const char* end = skip_contraction(text, p, false); end != p) return end;
  const auto c = text.at(p);
  // " ?" belongs to the next character unless that is a space.
  const bool leading_space = *p == ' ';
  const auto first = leading_space ? text.at(c.next) : c;
  const bool has_first = !leading_space || !text.at_end(c.next);
  if (first.classes & kLetter) return text.skip(first.next, kLetter);
  if (first.classes & kNumber) return text.skip(first.next, kNumber);
  if (has_first && !(first.classes & kSpace)) return text.skip_other(first.next, kSpace | kLetter | kNumber);
  return skip_spaces(text, p);
}

// From the number at p, at most `most` numbers.
const char* skip_numbers(const Cursor& text, const char* p, int most) {
  for (int i = 0; i < most; ++i) {
    const auto c = text.at(p);
    if (!(c.classes & kNumber)) break;
    p = c.next;
  }
  return p;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]* and what follows it in all patterns after GPT-2's; `slash` adds / to the tail.
const char* next_sign_or_space(const Cursor& text, const char* p, uint8_t word_classes, bool slash) {
  const auto c = text.at(p);
  const auto first = *p == ' ' ? text.at(c.next) : c;
  const bool has_first = *p != ' ' || !text.at_end(c.next);
  if (has_first && !(first.classes & (kSpace | kNumber | word_classes))) {
    const char* q = text.skip_other(first.next, kSpace | kNumber | word_classes);
    while (is_newline(text.byte(q)) || (slash && text.byte(q) == '/')) ++q;
    return q;
  }
  return skip_spaces_or_lines(text, p);
}

template <int kDigits, uint8_t kWordClasses>
const char* next_cl100k(const Cursor& text, const char* p) {
  if (const char* end = skip_contraction(text, p, true); end != p) return end;
  const auto c = text.at(p);
  if (c.classes & kWordClasses) return text.skip(c.next, kWordClasses);
  if (c.classes & kNumber) return skip_numbers(text, p, kDigits);
  if (!is_newline(*p)) {
    const auto second = text.at(c.next);
    if (second.classes & kWordClasses) return text.skip(second.next, kWordClasses);
  }
  return next_sign_or_space(text, p, kWordClasses, false);
}

bool can_be_upper(uint8_t classes) {
  return (classes & kMark) || ((classes & kLetter) && !(classes & kLower));
}
bool can_be_lower(uint8_t classes) {
  return (classes & kMark) || ((classes & kLetter) && !(classes & kUpper));
}

// upper*lower+ at p, or null. "lower" and "upper" share the letters without case and the marks, hence the
// backtracking of the regex: with nothing lower behind the upper run, the run ends after its last shared
// character.
const char* skip_lower_word(const Cursor& text, const char* p) {
  const char* last_shared_end = nullptr;
  auto c = text.at(p);
  for (; can_be_upper(c.classes); c = text.at(p)) {
    p = c.next;
    if (can_be_lower(c.classes)) last_shared_end = p;
  }
  if (!can_be_lower(c.classes)) return last_shared_end;
  for (; can_be_lower(c.classes); c = text.at(p)) p = c.next;
  return p;
}

// upper+lower* at p, or null.
const char* skip_upper_word(const Cursor& text, const char* p) {
  const char* const begin = p;
  auto c = text.at(p);
  for (; can_be_upper(c.classes); c = text.at(p)) p = c.next;
  if (p == begin) return nullptr;
  for (; can_be_lower(c.classes); c = text.at(p)) p = c.next;
  return p;
}

const char* next_o200k(const Cursor& text, const char* p) {
  const auto c = text.at(p);
  const bool can_lead = !(c.classes & (kLetter | kNumber)) && !is_newline(*p);
  // Each alternative first with the leading character, then without.
  for (const auto skip_word : {skip_lower_word, skip_upper_word}) {
    const char* end = can_lead ? skip_word(text, c.next) : nullptr;
    if (!end) end = skip_word(text, p);
    if (end) return skip_contraction(text, end, true);
  }
  if (c.classes & kNumber) return skip_numbers(text, p, 3);
  return next_sign_or_space(text, p, kLetter, true);
}

template <const char* (*kNext)(const Cursor&, const char*)>
void scan(std::string_view text, Spans& out) {
  const Cursor cursor(text);
  for (const char* p = text.data(); p != cursor.end();) {
    const char* end = kNext(cursor, p);
    out.push_back({cursor.offset(p), cursor.offset(end)});
    p = end;
  }
}

}  // namespace

const std::vector<KnownPattern>& known_patterns() {
  static const std::vector<KnownPattern> patterns = {
      {"gpt2", kGpt2Pattern, scan<next_gpt2>},
      {"llama3", kLlama3Pattern, scan<next_cl100k<3, kLetter>>},
      {"qwen2", kQwen2Pattern, scan<next_cl100k<1, kLetter>>},
      {"qwen3.5", kQwen35Pattern, scan<next_cl100k<1, kLetter | kMark>>},
      {"o200k", kO200kPattern, scan<next_o200k>},
  };
  return patterns;
}

Scanner find_scanner(std::string_view regex) {
  for (const KnownPattern& known : known_patterns()) {
    if (known.regex == regex) return known.scan;
  }
  return nullptr;
}

}  // namespace octavo::tok
