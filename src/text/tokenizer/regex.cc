#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include <vector>

#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

constexpr size_t kJitStackBytes = size_t{8}
                                  << 20;  // grown on demand; the default of 32 kB fails on long runs

// What an escape means in Oniguruma, as the content of a class; \W and \H are the complements of \w and \h.
std::string_view class_content(char c) {
  switch (c) {
    case 's':
      return "\\p{White_Space}";
    case 'S':
      return "\\P{White_Space}";
    case 'w':
    case 'W':
      return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    case 'h':
    case 'H':
      return "0-9a-fA-F";
    default:
      return "";
  }
}
bool is_complement(char c) { return c == 'W' || c == 'H'; }

// Copies the pattern atom by atom; knows where the last atom began, so that a repeated repetition can be
// wrapped.
class Translator {
 public:
  explicit Translator(std::string_view in) : in_(in) {}

  std::string run() {
    while (i_ < in_.size()) {
      const char c = in_[i_];
      if (c == '\\') {
        begin_atom();
        escape();
      } else if (c == '[') {
        begin_atom();
        char_class();
      } else if (c == '(') {
        groups_.push_back(out_.size());
        out_ += in_[i_++];
      } else if (c == ')') {
        if (!groups_.empty()) {
          atom_ = groups_.back();
          groups_.pop_back();
        }
        out_ += in_[i_++];
      } else if (c == '{') {
        interval();
      } else {
        if (c != '*' && c != '+' && c != '?') begin_atom();
        // A character of several bytes is one atom.
        const size_t n = std::min<size_t>(char_length(c), in_.size() - i_);
        out_ += in_.substr(i_, n);
        i_ += n;
      }
    }
    return std::move(out_);
  }

 private:
  void begin_atom() { atom_ = out_.size(); }

  // The escape at i_, outside a class.
  void escape() {
    const char c = i_ + 1 < in_.size() ? in_[i_ + 1] : '\0';
    if (const std::string_view content = class_content(c); !content.empty()) {
      out_ += str(is_complement(c) ? "[^" : "[", content, "]");
      i_ += 2;
    } else {
      copy_escape();
    }
  }

  void copy_escape() {
    const char c = i_ + 1 < in_.size() ? in_[i_ + 1] : '\0';
    out_ += in_.substr(i_, 2);
    i_ = std::min(i_ + 2, in_.size());
    // \p{..}, \x{..}: their braces are no interval.
    if ((c == 'p' || c == 'P' || c == 'x') && i_ < in_.size() && in_[i_] == '{') {
      const size_t end = std::min(in_.find('}', i_), in_.size() - 1);
      out_ += in_.substr(i_, end + 1 - i_);
      i_ = end + 1;
    }
  }

  // A class may hold a complement, which PCRE2 cannot spell inside it: [X\W] becomes (?:[X]|[^\w]) and [^X\W]
  // (?:(?=[\w])[^X]).
  void char_class() {
    const size_t begin = out_.size();
    out_ += in_[i_++];
    const bool negated = i_ < in_.size() && in_[i_] == '^';
    if (negated) out_ += in_[i_++];
    if (i_ < in_.size() && in_[i_] == ']') out_ += in_[i_++];  // a literal bracket
    std::string complements;
    while (i_ < in_.size() && in_[i_] != ']') {
      const char next = i_ + 1 < in_.size() ? in_[i_ + 1] : '\0';
      if (in_[i_] == '[' && next == ':') {
        const size_t end = std::min(in_.find(":]", i_), in_.size() - 2);
        out_ += in_.substr(i_, end + 2 - i_);
        i_ = end + 2;
      } else if (in_[i_] != '\\') {
        out_ += in_[i_++];
      } else if (is_complement(next)) {
        complements += str(negated ? "(?=[" : "|[^", class_content(next), negated ? "])" : "]");
        i_ += 2;
      } else if (const std::string_view content = class_content(next); !content.empty()) {
        out_ += content;
        i_ += 2;
      } else {
        copy_escape();
      }
    }
    if (i_ < in_.size()) out_ += in_[i_++];
    if (complements.empty()) return;
    const std::string rest = out_.substr(begin);
    const bool is_empty = rest == "[]" || rest == "[^]";
    out_.resize(begin);
    out_ += negated ? str("(?:", complements, is_empty ? "(?s:.)" : rest, ")")
                    : str("(?:", is_empty ? "(?!)" : rest, complements, ")");
  }

  void interval() {
    const size_t end = in_.find_first_not_of("0123456789,", i_ + 1);
    const bool is_interval = end != std::string_view::npos && in_[end] == '}' && end > i_ + 1;
    if (!is_interval) begin_atom();
    const size_t n = is_interval ? end + 1 - i_ : 1;
    out_ += in_.substr(i_, n);
    i_ += n;
    if (is_interval && i_ < in_.size() && in_[i_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++i_;
    }
  }

  std::string_view in_;
  size_t i_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last atom starts in out_
  std::vector<size_t> groups_;  // where each open group starts in out_
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern) { return Translator(pattern).run(); }

struct Regex::Code {
  std::string pattern;
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, const std::string& where) {
  auto compiled = std::make_shared<Code>();
  compiled->pattern = pattern;
  const std::string translated = pcre2_from_oniguruma(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // \C would end a match within a character, which all that reads the pieces takes for whole.
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                 &offset, nullptr);
  if (!compiled->code) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(error, message, sizeof(message));
    throw Error(where, ": regular expression \"", pattern, "\": ", reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(compiled->code,
                    PCRE2_JIT_COMPLETE);  // without a JIT on this machine: interpreted, slower
  code_ = std::move(compiled);
}

void Regex::find_all(std::string_view text, Spans& out) const {
  struct Match {  // scratch of one search: not shared between threads
    pcre2_match_data* data;
    pcre2_match_context* context = pcre2_match_context_create(nullptr);
    pcre2_jit_stack* stack = pcre2_jit_stack_create(size_t{32} << 10, kJitStackBytes, nullptr);
    explicit Match(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {
      OCTAVO_CHECK(data && context && stack, "out of memory");
      pcre2_jit_stack_assign(context, nullptr, stack);
    }
    ~Match() {
      pcre2_jit_stack_free(stack);
      pcre2_match_context_free(context);
      pcre2_match_data_free(data);
    }
  } match(code_->code);

  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.data);
  size_t at = 0;
  uint32_t options = PCRE2_NO_UTF_CHECK;
  while (at <= text.size()) {
    const int rc = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               options, match.data, match.context);
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0)
      throw Error("regular expression \"", code_->pattern, "\" gives up on this text (PCRE2 error ", rc, ")");
    const size_t begin = bounds[0], end = bounds[1];
    if (end < begin || end < at) return;  // \K inside a lookaround: no sensible match
    out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    at = end > begin ? end : end + (end < text.size() ? char_length(text[end]) : 1);
  }
}

}  // namespace octavo::tok
