#include "text/template/lexer.h"

#include <algorithm>

#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// Newlines become \n, and one at the end of the source goes (jinja2's keep_trailing_newline is off).
std::string normalise_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise_newlines(source)), s_(source_) {}

  std::vector<Token> run() {
    while (at_ < s_.size()) {
      const size_t open = next_open();
      if (open == std::string_view::npos) {
        data(s_.substr(at_));
        at_ = s_.size();
        break;
      }
      tag(open);
    }
    push(TokenType::kEnd, "", s_.size());
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, size_t at) {
    const Position p = position(at);
    throw TemplateError(message, p.line, p.column);
  }

  /// Asked for in rising order, so that the whole costs one pass.
  Position position(size_t at) {
    if (at < counted_) counted_ = 0, line_ = 1, column_ = 1;
    for (; counted_ < at; ++counted_) {
      if (s_[counted_] == '\n')
        ++line_, column_ = 1;
      else
        column_ += (s_[counted_] & 0xC0) != 0x80;
    }
    return {line_, column_};
  }

  void push(TokenType type, std::string text, size_t at) {
    tokens_.push_back({type, std::move(text), position(at)});
  }
  void data(std::string_view text) {
    if (!text.empty()) push(TokenType::kData, std::string(text), at_);
  }

  bool starts(std::string_view what, size_t at) const { return s_.substr(at, what.size()) == what; }

  size_t next_open() const {
    for (size_t i = s_.find('{', at_); i != std::string_view::npos; i = s_.find('{', i + 1))
      if (i + 1 < s_.size() && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
    return std::string_view::npos;
  }

  size_t skip_space(size_t at) const {
    while (at < s_.size() && is_space(code_point(s_, at))) at += char_bytes(s_, at);
    return at;
  }

  char sign_at(size_t at) const { return at < s_.size() && (s_[at] == '-' || s_[at] == '+') ? s_[at] : '\0'; }

  /// The text before a tag at `open`, with what the tag's sign and lstrip_blocks take from its end.
  std::string_view before(size_t open, char sign, bool lstrip) const {
    const std::string_view text = s_.substr(at_, open - at_);
    if (sign == '-') return strip(text, false, true);
    if (sign == '+' || !lstrip) return text;
    const size_t newline = text.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    const bool line_start = line > 0 || at_ == 0 || s_[at_ - 1] == '\n';
    return line_start && strip(text.substr(line), true, false).empty() ? text.substr(0, line) : text;
  }

  /// Past the end `mark` ("%}" or "#}") of a tag, whose sign is in front of it at `at`; npos if it is not
  /// there.
  size_t after_end(std::string_view mark, size_t at, bool trim_newline) const {
    const char sign = sign_at(at);
    const size_t end = at + (sign ? 1 : 0);
    if (!starts(mark, end) || (sign == '+' && !trim_newline)) return std::string_view::npos;
    const size_t next = end + mark.size();
    if (sign == '-') return skip_space(next);
    return !sign && trim_newline && next < s_.size() && s_[next] == '\n' ? next + 1 : next;
  }

  void tag(size_t open) {
    const char kind = s_[open + 1];
    const char sign = sign_at(open + 2);
    data(before(open, sign, kind != '{'));
    const size_t inner = open + (sign ? 3 : 2);
    if (kind == '#') return comment(open, inner);
    if (kind == '%') {
      const size_t word = skip_space(inner);
      if (starts("raw", word)) {
        const size_t space = skip_space(word + 3);
        const size_t body = after_end("%}", space, false);
        if (body != std::string_view::npos) return raw(open, body);
      }
    }
    push(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "", open);
    at_ = inner;
    code(kind == '{');
  }

  void comment(size_t open, size_t inner) {
    for (size_t i = s_.find("#}", inner); i != std::string_view::npos; i = s_.find("#}", i + 1)) {
      const bool sign = i > inner && sign_at(i - 1);
      at_ = after_end("#}", sign ? i - 1 : i, true);
      return;
    }
    fail("missing end of comment tag", open);
  }

  void raw(size_t open, size_t body) {
    at_ = body;
    for (size_t i = s_.find("{%", body); i != std::string_view::npos; i = s_.find("{%", i + 1)) {
      const char sign = sign_at(i + 2);
      const size_t word = skip_space(i + (sign ? 3 : 2));
      if (!starts("endraw", word)) continue;
      const size_t next = after_end("%}", skip_space(word + 6), true);
      if (next == std::string_view::npos) continue;
      data(before(i, sign, true));
      at_ = next;
      return;
    }
    fail("missing end of raw directive", open);
  }

  /// Tokens up to the end of the tag. Within brackets its end mark is none: {{ {'a': {}} }}.
  void code(bool variable) {
    const size_t first = brackets_.size();
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= s_.size()) fail("the template ends inside a tag", at_);
      if (brackets_.size() == first && code_end(variable)) return;
      token();
    }
  }

  bool code_end(bool variable) {
    if (variable) {
      const bool strips = s_[at_] == '-' && starts("}}", at_ + 1);
      if (!strips && !starts("}}", at_)) return false;
      push(TokenType::kVariableEnd, "", at_);
      at_ = strips ? skip_space(at_ + 3) : at_ + 2;
      return true;
    }
    const size_t next = after_end("%}", at_, true);
    if (next == std::string_view::npos) return false;
    push(TokenType::kBlockEnd, "", at_);
    at_ = next;
    return true;
  }

  void token() {
    const char c = s_[at_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string();
    if (is_word(code_point(s_, at_))) return name();
    op();
  }

  void name() {
    const size_t begin = at_;
    while (at_ < s_.size() && is_word(code_point(s_, at_))) at_ += char_bytes(s_, at_);
    push(TokenType::kName, std::string(s_.substr(begin, at_ - begin)), begin);
  }

  template <class F>
  size_t digits(size_t at, std::string& out, F accepts) const {
    for (; at < s_.size(); ++at) {
      const bool joint = s_[at] == '_' && at + 1 < s_.size() && accepts(s_[at + 1]);
      if (!joint && !accepts(s_[at])) break;
      if (!joint) out += s_[at];
    }
    return at;
  }

  void number() {
    const size_t begin = at_;
    std::string text;
    const char mark =
        begin + 1 < s_.size() && s_[begin] == '0' ? static_cast<char>(s_[begin + 1] | 0x20) : '\0';
    if (const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0) {
      const auto accepts = [base](char c) {
        const int v = hex_value(c);
        return v >= 0 && v < base;
      };
      const size_t end = digits(begin + 2 + (starts("_", begin + 2) ? 1 : 0), text, accepts);
      if (!text.empty()) {
        at_ = end;
        return push(TokenType::kInteger, std::string("0") + mark + text, begin);
      }
    }
    size_t end = digits(begin, text, is_digit);
    TokenType type = TokenType::kInteger;
    // a.0.1 is two subscripts, not a subscript by 0.1
    const bool may_be_float = begin == 0 || s_[begin - 1] != '.';
    if (may_be_float && end + 1 < s_.size() && s_[end] == '.' && is_digit(s_[end + 1])) {
      type = TokenType::kFloat;
      text += '.';
      end = digits(end + 1, text, is_digit);
    }
    if (may_be_float && end < s_.size() && (s_[end] | 0x20) == 'e') {
      const size_t exponent = end + 1 + (sign_at(end + 1) ? 1 : 0);
      if (exponent < s_.size() && is_digit(s_[exponent])) {
        type = TokenType::kFloat;
        text.append(s_.substr(end, exponent - end));
        end = digits(exponent, text, is_digit);
      }
    }
    at_ = end;
    push(type, std::move(text), begin);
  }

  void string() {
    const size_t begin = at_;
    const char quote = s_[at_++];
    std::string out;
    while (at_ < s_.size() && s_[at_] != quote) {
      if (s_[at_] == '\\' && at_ + 1 < s_.size())
        escape(out);
      else
        out += s_[at_++];
    }
    if (at_ >= s_.size()) fail("a string is not closed", begin);
    ++at_;
    push(TokenType::kString, std::move(out), begin);
  }

  /// Python's escapes; an unknown one stays as it is.
  void escape(std::string& out) {
    static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    const char c = s_[at_ + 1];
    if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
      out += kTo[i];
      at_ += 2;
    } else if (c == '\n') {
      at_ += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      escape_digits(out, at_ + 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, true);
    } else if (c >= '0' && c <= '7') {
      escape_digits(out, at_ + 1, 3, 8, false);
    } else if (c == 'N') {
      fail("character names (\\N{...}) are not supported", at_);
    } else {
      out += '\\';
      ++at_;
    }
  }

  void escape_digits(std::string& out, size_t at, int count, int base, bool exact) {
    char32_t value = 0;
    int n = 0;
    for (; n < count && at < s_.size(); ++n, ++at) {
      const int v = hex_value(s_[at]);
      if (v < 0 || v >= base) break;
      value = value * static_cast<char32_t>(base) + static_cast<char32_t>(v);
    }
    if ((exact && n != count) || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      fail("bad escape in a string", at_);
    append_utf8(out, value);
    at_ = at;
  }

  void op() {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}<>=.:|,;";
    size_t n = 1;
    for (const std::string_view two : kTwo)
      if (starts(two, at_)) n = 2;
    const char c = s_[at_];
    if (n == 1 && kOne.find(c) == std::string_view::npos)
      fail("unexpected character '" + std::string(s_.substr(at_, char_bytes(s_, at_))) + "'", at_);
    if (n == 1) bracket(c);
    push(TokenType::kOperator, std::string(s_.substr(at_, n)), at_);
    at_ += n;
  }

  void bracket(char c) {
    static constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(c) != std::string_view::npos) {
      brackets_ += c;
    } else if (const size_t i = kClose.find(c); i != std::string_view::npos) {
      if (brackets_.empty() || brackets_.back() != kOpen[i]) fail(std::string("unexpected '") + c + "'", at_);
      brackets_.pop_back();
    }
  }

  const std::string source_;
  const std::string_view s_;
  size_t at_ = 0;
  size_t counted_ = 0;
  int line_ = 1, column_ = 1;
  std::string brackets_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const TemplateLimits& limits) {
  if (source.size() > limits.source_bytes) throw TemplateError("the source is too large", 0, 0);
  if (!valid_utf8(source)) throw TemplateError("the source is not UTF-8", 0, 0);
  return Lexer(source).run();
}

}  // namespace octavo::jinja
