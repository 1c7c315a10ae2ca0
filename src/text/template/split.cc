#include "text/template/split.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

/// Collects pieces of a text, from its left or its right end.
class Pieces {
 public:
  Pieces(Runtime& rt, bool from_right) : rt_(rt), from_right_(from_right) {}
  void add(std::string_view piece) { items_.push_back(rt_.str(std::string(piece))); }
  Value finish() {
    if (from_right_) std::reverse(items_.begin(), items_.end());
    return rt_.list(std::move(items_));
  }

 private:
  Runtime& rt_;
  const bool from_right_;
  std::vector<Value> items_;
};

Value split_space(Runtime& rt, std::string_view rest, int64_t limit, bool from_right) {
  Pieces out(rt, from_right);
  for (;;) {
    rest = strip(rest, !from_right, from_right);
    if (rest.empty()) return out.finish();
    if (limit-- == 0) break;
    size_t begin = 0, end = rest.size();
    if (from_right) {
      for (size_t at = end; at > 0; begin = at) {
        size_t last = at - 1;
        while (last > 0 && (rest[last] & 0xC0) == 0x80) --last;
        if (is_space(code_point(rest, last))) break;
        at = last;
      }
    } else {
      for (end = 0; end < rest.size() && !is_space(code_point(rest, end));) end += char_bytes(rest, end);
    }
    out.add(rest.substr(begin, end - begin));
    rest = from_right ? rest.substr(0, begin) : rest.substr(end);
  }
  out.add(strip(rest, !from_right, from_right));
  return out.finish();
}

template <class F>
Value every(const Value& v, F accepts) {
  const std::string& text = v.text();
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at))
    if (!accepts(static_cast<UChar32>(code_point(text, at)))) return Value::boolean(false);
  return Value::boolean(!text.empty());
}

/// Some cased character, and none that is `wrong`.
template <class F>
Value cased(const Value& v, F wrong) {
  bool some = false;
  const std::string& text = v.text();
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) {
    const auto c = static_cast<UChar32>(code_point(text, at));
    if (wrong(c) || u_istitle(c)) return Value::boolean(false);
    some |= u_hasBinaryProperty(c, UCHAR_LOWERCASE) || u_hasBinaryProperty(c, UCHAR_UPPERCASE);
  }
  return Value::boolean(some);
}

bool digit(UChar32 c) {
  const auto type = u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE);
  return type == U_NT_DECIMAL || type == U_NT_DIGIT;
}
bool numeric(UChar32 c) { return u_getIntPropertyValue(c, UCHAR_NUMERIC_TYPE) != U_NT_NONE; }

}  // namespace

Value split(Runtime& rt, const std::string& text, const std::string* sep, int64_t limit, bool from_right) {
  rt.budget.step(4 * text.size());
  if (!sep) return split_space(rt, text, limit, from_right);
  if (sep->empty()) rt.fail("empty separator");
  Pieces out(rt, from_right);
  std::string_view rest = text;
  while (limit-- != 0) {
    const size_t at = from_right ? rest.rfind(*sep) : rest.find(*sep);
    if (at == std::string_view::npos) break;
    out.add(from_right ? rest.substr(at + sep->size()) : rest.substr(0, at));
    rest = from_right ? rest.substr(0, at) : rest.substr(at + sep->size());
  }
  out.add(rest);
  return out.finish();
}

Value split_lines(Runtime& rt, const std::string& text, bool keep_ends) {
  rt.budget.step(4 * text.size());
  Pieces out(rt, false);
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = code_point(text, at);
    size_t next = at + char_bytes(text, at);
    const bool ends =
        (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (ends) {
      if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
      out.add(std::string_view(text).substr(begin, (keep_ends ? next : at) - begin));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) out.add(std::string_view(text).substr(begin));
  return out.finish();
}

std::string replace(Runtime& rt, const std::string& text, const std::string& from, const std::string& to,
                    int64_t limit) {
  rt.budget.step(4 * text.size());
  std::string out;
  size_t begin = 0;
  const auto put = [&](std::string_view piece) {
    rt.budget.check_text(out.size() + piece.size());
    out += piece;
  };
  if (from.empty()) {  // between all characters
    for (; begin < text.size() && limit != 0; --limit) {
      put(to);
      put(std::string_view(text).substr(begin, char_bytes(text, begin)));
      begin += char_bytes(text, begin);
    }
    if (limit != 0) put(to);
  } else {
    for (size_t at = text.find(from); at != std::string::npos && limit != 0;
         at = text.find(from, begin), --limit) {
      put(std::string_view(text).substr(begin, at - begin));
      put(to);
      begin = at + from.size();
    }
  }
  put(std::string_view(text).substr(begin));
  rt.budget.step(out.size());
  return out;
}

std::string swap_case(std::string_view s) {
  std::string out;
  for (size_t at = 0; at < s.size(); at += char_bytes(s, at)) {
    const std::string_view c = s.substr(at, char_bytes(s, at));
    out += u_isupper(static_cast<UChar32>(code_point(s, at))) ? to_lower(c) : to_upper(c);
  }
  return out;
}

Value items_of(Runtime& rt, const Value& dict, SeqType type) {
  std::vector<Value> out;
  for (const auto& [key, value] : dict.dict().items)
    out.push_back(type == SeqType::kKeys     ? key
                  : type == SeqType::kValues ? value
                                             : rt.list({key, value}, SeqType::kTuple));
  return rt.list(std::move(out), type);
}

Value is_alpha(const Value& v) {
  return every(v, [](UChar32 c) { return u_isalpha(c); });
}
Value is_digit(const Value& v) { return every(v, digit); }
Value is_numeric(const Value& v) { return every(v, numeric); }
Value is_decimal(const Value& v) {
  return every(v, [](UChar32 c) { return u_isdigit(c); });
}
Value is_alnum(const Value& v) {
  return every(v, [](UChar32 c) { return u_isalpha(c) || numeric(c); });
}
Value is_space_str(const Value& v) {
  return every(v, [](UChar32 c) { return is_space(static_cast<char32_t>(c)); });
}
Value is_lower(const Value& v) {
  return cased(v, [](UChar32 c) { return u_hasBinaryProperty(c, UCHAR_UPPERCASE); });
}
Value is_upper(const Value& v) {
  return cased(v, [](UChar32 c) { return u_hasBinaryProperty(c, UCHAR_LOWERCASE); });
}

}  // namespace octavo::jinja
