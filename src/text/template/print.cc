#include "text/template/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_hex(std::string& out, char32_t c, int digits) {
  for (int i = digits - 1; i >= 0; --i) out += kHex[(c >> (4 * i)) & 15];
}

void append_repr_char(std::string& out, std::string_view utf8, char32_t c, char quote) {
  if (c == static_cast<unsigned char>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n' || c == '\r' || c == '\t') {
    out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
  } else if (is_printable(c)) {
    out += utf8;
  } else {
    out += c < 0x100 ? "\\x" : c < 0x10000 ? "\\u" : "\\U";
    append_hex(out, c, c < 0x100 ? 2 : c < 0x10000 ? 4 : 8);
  }
}

void append_str_repr(std::string& out, const std::string& text) {
  const bool single = text.find('\'') == std::string::npos || text.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    const size_t n = char_bytes(text, at);
    append_repr_char(out, std::string_view(text).substr(at, n), code_point(text, at), quote);
    at += n;
  }
  out += quote;
}

void append_repr(Runtime& rt, std::string& out, const Value& v);

void append_dict_repr(Runtime& rt, std::string& out, const Dict& dict) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : dict.items) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr(rt, out, key);
    out += ": ";
    append_repr(rt, out, value);
  }
  out += '}';
}

void append_seq_repr(Runtime& rt, std::string& out, const Value& v) {
  const Seq& seq = v.seq();
  if (seq.type == SeqType::kIterator) {
    out += "<generator object>";
    return;
  }
  const bool tuple = seq.type == SeqType::kTuple || seq.type == SeqType::kGroup;
  const bool view = seq.type >= SeqType::kKeys;
  if (view) out += type_name(v) + "(";
  out += tuple ? '(' : '[';
  bool first = true;
  for (const Value& item : seq.items) {
    if (!std::exchange(first, false)) out += ", ";
    append_repr(rt, out, item);
  }
  if (tuple && seq.items.size() == 1) out += ',';
  out += tuple ? ')' : ']';
  if (view) out += ')';
}

void append_range_repr(Runtime& rt, std::string& out, const Seq& seq) {
  const auto& items = seq.items;
  const int64_t first = items.empty() ? 0 : items[0].integer();
  const int64_t step = items.size() < 2 ? 1 : items[1].integer() - first;
  const int64_t stop = items.empty() ? 0 : items.back().integer() + step;
  out += "range(" + std::to_string(first) + ", " + std::to_string(stop);
  if (step != 1) out += ", " + std::to_string(step);
  out += ')';
}

void append_repr(Runtime& rt, std::string& out, const Value& v) {
  rt.budget.step();
  rt.budget.check_text(out.size());
  switch (v.kind()) {
    case Kind::kStr:
      if (v.str().markup) out += "Markup(";
      append_str_repr(out, v.text());
      if (v.str().markup) out += ')';
      break;
    case Kind::kUndefined:
      out += "Undefined";
      break;
    case Kind::kSeq:
      if (v.seq().type == SeqType::kRange)
        append_range_repr(rt, out, v.seq());
      else
        append_seq_repr(rt, out, v);
      break;
    case Kind::kDict:
      append_dict_repr(rt, out, v.dict());
      break;
    case Kind::kMacro:
    case Kind::kMethod:
    case Kind::kBuiltin:
    case Kind::kNamespace:
    case Kind::kLoop:
    case Kind::kCycler:
    case Kind::kJoiner:
      out += "<" + type_name(v) + ">";
      break;
    default:
      append_text(rt, out, v);
  }
}

class JsonWriter {
 public:
  JsonWriter(Runtime& rt, const JsonStyle& style) : rt_(rt), style_(style) {}

  void value(const Value& v, int level) {
    rt_.budget.step();
    rt_.budget.check_text(out.size());
    switch (v.kind()) {
      case Kind::kNone:
        out += "null";
        break;
      case Kind::kBool:
        out += v.boolean() ? "true" : "false";
        break;
      case Kind::kFloat:
        number(v.number());
        break;
      case Kind::kInt:
      case Kind::kBigInt:
        append_text(rt_, out, v);
        break;
      case Kind::kStr:
        string(v.text());
        break;
      case Kind::kSeq:
        if (v.seq().type <= SeqType::kGroup) return array(v.seq(), level);
        [[fallthrough]];
      default:
        if (!v.is_dict()) rt_.fail("object of type " + type_name(v) + " is not JSON serializable");
        object(v.dict(), level);
    }
  }

  std::string out;

 private:
  void number(double d) {
    if (std::isnan(d))
      out += "NaN";
    else if (std::isinf(d))
      out += d > 0 ? "Infinity" : "-Infinity";
    else
      out += float_repr(d);
  }

  void string(const std::string& text) {
    out += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t n = char_bytes(text, at);
      character(std::string_view(text).substr(at, n), code_point(text, at));
      at += n;
    }
    out += '"';
  }

  void character(std::string_view utf8, char32_t c) {
    static constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    if (const size_t i = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
        i != std::string_view::npos) {
      out += '\\';
      out += kTo[i];
    } else if (c < 0x20 || (style_.ascii && c >= 0x7F && c < 0x10000)) {
      out += "\\u";
      append_hex(out, c, 4);
    } else if (style_.ascii && c >= 0x10000) {
      out += "\\u";
      append_hex(out, 0xD800 + ((c - 0x10000) >> 10), 4);
      out += "\\u";
      append_hex(out, 0xDC00 + ((c - 0x10000) & 0x3FF), 4);
    } else {
      out += utf8;
    }
  }

  void new_line(int level) {
    if (!style_.multiline) return;
    out += '\n';
    for (int i = 0; i < level; ++i) out += style_.indent;
  }

  void array(const Seq& seq, int level) {
    out += '[';
    for (size_t i = 0; i < seq.items.size(); ++i) {
      if (i) out += style_.item_separator;
      new_line(level + 1);
      value(seq.items[i], level + 1);
    }
    if (!seq.items.empty()) new_line(level);
    out += ']';
  }

  void key(const Value& k) {
    if (k.is_str()) return string(k.text());
    out += '"';
    value(k, 0);
    out += '"';
  }

  void object(const Dict& dict, int level) {
    auto items = dict.items;
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto& a, const auto& b) { return less(rt_.budget, a.first, b.first); });
    out += '{';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out += style_.item_separator;
      new_line(level + 1);
      key(items[i].first);
      out += style_.key_separator;
      value(items[i].second, level + 1);
    }
    if (!items.empty()) new_line(level);
    out += '}';
  }

  Runtime& rt_;
  const JsonStyle& style_;
};

}  // namespace

/// Shortest digits that read back the same, in Python's choice of form: exponents below -4 and from 16 on.
std::string float_repr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  const std::string sign(text[0] == '-' ? "-" : "");
  std::string digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  const int n = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits[0] + (n > 1 ? "." + digits.substr(1) : "") + (exponent < 0 ? "e-" : "e+");
    const std::string power = std::to_string(std::abs(exponent));
    return out + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (n <= exponent + 1)
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - n), '0') + ".0";
  return sign + digits.substr(0, static_cast<size_t>(exponent) + 1) + "." +
         digits.substr(static_cast<size_t>(exponent) + 1);
}

void append_text(Runtime& rt, std::string& out, const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kNone:
      out += "None";
      break;
    case Kind::kBool:
      out += v.boolean() ? "True" : "False";
      break;
    case Kind::kInt:
      out += std::to_string(v.integer());
      break;
    case Kind::kFloat:
      out += float_repr(v.number());
      break;
    case Kind::kStr:
    case Kind::kBigInt:
      rt.budget.step(v.text().size());
      rt.budget.check_text(out.size() + v.text().size());
      out += v.text();
      break;
    default:
      append_repr(rt, out, v);
  }
}

std::string to_text(Runtime& rt, const Value& v) {
  std::string out;
  append_text(rt, out, v);
  return out;
}

std::string repr(Runtime& rt, const Value& v) {
  std::string out;
  append_repr(rt, out, v);
  return out;
}

std::string to_json(Runtime& rt, const Value& v, const JsonStyle& style) {
  JsonWriter writer(rt, style);
  writer.value(v, 0);
  return std::move(writer.out);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace octavo::jinja
