// printf and str.format formatting, and strftime.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

constexpr int kMaxWidth = 1'000'000;
constexpr int kMaxPrecision = 1000;

/// The common part of both languages: [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<' '>' '^' '=' ; none: by type
  char sign = '-';
  bool alternate = false, commas = false;
  int width = 0, precision = -1;
  char type = '\0';
};

std::string padded(Runtime& rt, const Spec& spec, const std::string& sign, const std::string& body,
                   char align) {
  const int64_t missing = spec.width - count_code_points(sign) - count_code_points(body);
  if (missing <= 0) return sign + body;
  rt.budget.step(static_cast<size_t>(missing));
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const auto fill = [&](int64_t n) {
    std::string out;
    for (; n > 0; --n) out += spec.fill;
    return out;
  };
  if (align == '=') return sign + fill(missing) + body;
  return fill(left) + sign + body + fill(missing - left);
}

std::string with_commas(const std::string& digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i && (whole - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string float_digits(double magnitude, const Spec& spec) {
  if (!std::isfinite(magnitude)) return std::isnan(magnitude) ? "nan" : "inf";
  if (!spec.type) return float_repr(magnitude);
  const bool percent = spec.type == '%';
  const char format[] = {'%', '.', '*', percent ? 'f' : spec.type, '\0'};
  char buffer[1500];  // 309 digits before the point, kMaxPrecision after it
  const int n = std::snprintf(buffer, sizeof buffer, format, spec.precision < 0 ? 6 : spec.precision,
                              percent ? magnitude * 100 : magnitude);
  return std::string(buffer, static_cast<size_t>(n)) + (percent ? "%" : "");
}

std::string integer_digits(uint64_t magnitude, const Spec& spec) {
  const char lower = static_cast<char>(spec.type | 0x20);
  const int base = lower == 'x' ? 16 : lower == 'o' ? 8 : lower == 'b' ? 2 : 10;
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, base).ptr;
  std::string out(buffer, end);
  if (base != 10 && spec.alternate) out = std::string("0") + lower + out;
  return spec.type == 'X' ? to_upper(out) : out;
}

std::string number_text(Runtime& rt, const Value& v, Spec spec) {
  const bool as_float = std::string_view("feEgGF%").find(spec.type) != std::string_view::npos && spec.type;
  const bool is_float = as_float || v.is(Kind::kFloat);
  const double d = v.number();
  const bool negative = is_float ? std::signbit(d) && !std::isnan(d) : v.integer() < 0;
  if (is_float && !as_float && spec.precision >= 0) spec.type = 'g';
  const uint64_t magnitude =
      negative ? uint64_t{0} - static_cast<uint64_t>(v.integer()) : static_cast<uint64_t>(v.integer());
  std::string digits = is_float ? float_digits(std::fabs(d), spec) : integer_digits(magnitude, spec);
  if (!is_float && spec.precision > static_cast<int>(digits.size()))
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  if (spec.commas) digits = with_commas(digits);
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  return padded(rt, spec, sign, digits, spec.align ? spec.align : '>');
}

std::string string_text(Runtime& rt, std::string text, const Spec& spec, char align) {
  if (spec.precision >= 0 && count_code_points(text) > spec.precision)
    text.resize(byte_offset(text, spec.precision));
  return padded(rt, spec, "", text, spec.align ? spec.align : align);
}

/// Reads a specification's fields from text; both languages use it.
class SpecReader {
 public:
  SpecReader(Runtime& rt, std::string_view s) : rt_(rt), s_(s) {}

  bool done() const { return at_ >= s_.size(); }
  char peek() const { return done() ? '\0' : s_[at_]; }
  char take() { return done() ? '\0' : s_[at_++]; }
  bool skip(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  int number(int limit) {
    int n = 0;
    while (!done() && peek() >= '0' && peek() <= '9') {
      n = n * 10 + (take() - '0');
      if (n > limit) rt_.fail("a width or precision is too large");
    }
    return n;
  }
  size_t at() const { return at_; }
  std::string_view take_until(char c) {
    const size_t end = s_.find(c, at_);
    if (end == std::string_view::npos) rt_.fail("a format is not complete");
    const std::string_view out = s_.substr(at_, end - at_);
    at_ = end + 1;
    return out;
  }

  /// str.format's form.
  Spec spec() {
    static constexpr std::string_view kAligns = "<>^=";
    Spec out;
    if (!done()) {
      const size_t n = char_bytes(s_, at_);
      if (at_ + n < s_.size() && kAligns.find(s_[at_ + n]) != std::string_view::npos) {
        out.fill = std::string(s_.substr(at_, n));
        at_ += n;
        out.align = take();
      } else if (kAligns.find(peek()) != std::string_view::npos) {
        out.align = take();
      }
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') out.sign = take();
    out.alternate = skip('#');
    if (skip('0') && !out.align) out.fill = "0", out.align = '=';
    out.width = number(kMaxWidth);
    out.commas = skip(',');
    if (skip('.')) out.precision = number(kMaxPrecision);
    out.type = take();
    if (!done()) rt_.fail("invalid format specifier '" + std::string(s_) + "'");
    return out;
  }

 private:
  Runtime& rt_;
  const std::string_view s_;
  size_t at_ = 0;
};

std::string formatted(Runtime& rt, const Value& v, std::string_view spec_text) {
  if (spec_text.empty()) return to_text(rt, v);
  Spec spec = SpecReader(rt, spec_text).spec();
  const bool text_type = spec.type == 's' || (!spec.type && !v.is_numeric());
  if (text_type && v.is_str()) return string_text(rt, v.text(), spec, '<');
  static constexpr std::string_view kIntegerTypes = "dxXobn", kFloatTypes = "feEgGF%";
  const bool known = !spec.type || kFloatTypes.find(spec.type) != std::string_view::npos ||
                     (v.is_integral() && kIntegerTypes.find(spec.type) != std::string_view::npos);
  if (!v.is_numeric() || !known)
    rt.fail("unsupported format '" + std::string(spec_text) + "' for a " + type_name(v));
  if (spec.type == 'd' || spec.type == 'n') spec.type = '\0';
  return number_text(rt, v, spec);
}

class Printf {
 public:
  Printf(Runtime& rt, std::string_view format, const Value& args) : rt_(rt), in_(rt, format), args_(args) {}

  std::string run() {
    while (!in_.done()) {
      rt_.budget.check_text(out_.size());
      const char c = in_.take();
      if (c != '%' || in_.skip('%'))
        out_ += c;
      else
        conversion();
    }
    const bool all = args_.is_dict() || mapped_ || next_ == count() ||
                     (!is_tuple() && !args_.is_str() && !args_.is_numeric() && args_.is_seq());
    if (!all) rt_.fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  bool is_tuple() const { return args_.is_seq(SeqType::kTuple); }
  size_t count() const { return is_tuple() ? args_.seq().items.size() : 1; }

  Value next() {
    if (next_ >= count()) rt_.fail("not enough arguments for format string");
    return is_tuple() ? args_.seq().items[next_++] : (++next_, args_);
  }

  void conversion() {
    Value v;
    bool named = in_.skip('(');
    if (named) {
      const std::string key(in_.take_until(')'));
      const Value* found = args_.is_dict() ? args_.dict().find(std::string_view(key)) : nullptr;
      if (!found) rt_.fail("no format argument '" + key + "'");
      v = *found;
      mapped_ = true;
    }
    Spec spec = flags();
    spec.type = in_.take();
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    if (!named) v = next();
    convert(spec, v);
  }

  Spec flags() {
    Spec spec;
    for (bool more = true; more;) {
      more = true;
      if (in_.skip('-'))
        spec.align = '<';
      else if (in_.skip('0'))
        spec.fill = "0";
      else if (in_.skip('+'))
        spec.sign = '+';
      else if (in_.skip(' '))
        spec.sign = spec.sign == '+' ? '+' : ' ';
      else if (in_.skip('#'))
        spec.alternate = true;
      else
        more = false;
    }
    if (spec.align == '<') spec.fill = " ";
    spec.width = in_.number(kMaxWidth);
    if (in_.skip('.')) spec.precision = in_.number(kMaxPrecision);
    return spec;
  }

  void convert(Spec spec, Value v) {
    static constexpr std::string_view kIntegers = "diuxXo", kFloats = "feEgGF";
    if (spec.type == 's' || spec.type == 'r') {
      spec.fill = " ";
      out_ += string_text(rt_, spec.type == 's' ? to_text(rt_, v) : repr(rt_, v), spec, '>');
      return;
    }
    const bool to_integer = kIntegers.find(spec.type) != std::string_view::npos;
    if (!spec.type || (!to_integer && kFloats.find(spec.type) == std::string_view::npos))
      rt_.fail("unsupported format character");
    if (!v.is_numeric()) rt_.fail("a number is required, not " + type_name(v));
    if (to_integer && v.is(Kind::kFloat)) {
      if (!(std::fabs(v.number()) < 9e18)) rt_.fail("a number is out of range");
      v = Value::integer(static_cast<int64_t>(v.number()));
    }
    if (spec.type == 'd' || spec.type == 'i' || spec.type == 'u') spec.type = '\0';
    if (spec.fill == "0" && !spec.align) spec.align = '=';
    out_ += number_text(rt_, v, spec);
  }

  Runtime& rt_;
  SpecReader in_;
  const Value& args_;
  size_t next_ = 0;
  bool mapped_ = false;
  std::string out_;
};

/// One replacement field of str.format: name, .attribute, [index], !conversion, :spec.
class FieldReader {
 public:
  FieldReader(Runtime& rt, const Args& args, size_t& automatic)
      : rt_(rt), args_(args), automatic_(automatic) {}

  std::string run(std::string_view field) {
    const size_t colon = field.find(':');
    const std::string_view spec = colon == std::string_view::npos ? "" : field.substr(colon + 1);
    std::string_view path = field.substr(0, colon);
    char conversion = '\0';
    if (const size_t mark = path.find('!'); mark != std::string_view::npos) {
      conversion = mark + 2 == path.size() ? path[mark + 1] : '?';
      path = path.substr(0, mark);
    }
    if (spec.find('{') != std::string_view::npos) rt_.fail("nested format specifiers are not supported");
    const Value v = resolve(path);
    if (!conversion) return formatted(rt_, v, spec);
    if (conversion != 'r' && conversion != 's') rt_.fail("unsupported format conversion");
    return formatted(rt_, rt_.str(conversion == 'r' ? repr(rt_, v) : to_text(rt_, v)), spec);
  }

 private:
  Value resolve(std::string_view path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    Value v = argument(path.substr(0, end));
    while (end < path.size()) {
      const bool dot = path[end] == '.';
      const size_t stop =
          std::min(dot ? path.find_first_of(".[", end + 1) : path.find(']', end), path.size());
      v = step(v, path.substr(end + 1, stop - end - 1), dot);
      end = dot ? stop : std::min(stop + 1, path.size());
    }
    return v;
  }

  Value step(const Value& v, std::string_view key, bool dot) {
    int64_t index = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
    if (!dot && parsed.ec == std::errc() && parsed.ptr == key.data() + key.size())
      return get_item(rt_, v, Value::integer(index));
    const Value name = rt_.str(std::string(key));
    return dot ? get_attribute(rt_, v, name) : get_item(rt_, v, name);
  }

  Value argument(std::string_view name) {
    size_t index = 0;
    if (name.empty()) {
      index = automatic_++;
    } else if (std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc()) {
      for (const auto& [key, value] : args_.named)
        if (key == name) return value;
      rt_.fail("no format argument '" + std::string(name) + "'");
    }
    if (index >= args_.positional.size()) rt_.fail("no format argument " + std::to_string(index));
    return args_.positional[index];
  }

  Runtime& rt_;
  const Args& args_;
  size_t& automatic_;
};

}  // namespace

std::string printf_text(Runtime& rt, std::string_view format, const Value& args) {
  rt.budget.step(format.size());
  return Printf(rt, format, args).run();
}

std::string format_text(Runtime& rt, std::string_view format, const Args& args) {
  std::string out;
  size_t automatic = 0;
  for (size_t at = 0; at < format.size(); ++at) {
    rt.budget.check_text(out.size());
    const char c = format[at];
    const bool twice = at + 1 < format.size() && format[at + 1] == c;
    if ((c == '{' || c == '}') && twice) {
      out += c;
      ++at;
    } else if (c == '{') {
      const size_t end = format.find('}', at);
      if (end == std::string_view::npos) rt.fail("a format field is not closed");
      rt.budget.step(end - at);
      out += FieldReader(rt, args, automatic).run(format.substr(at + 1, end - at - 1));
      at = end;
    } else if (c == '}') {
      rt.fail("single '}' in a format");
    } else {
      out += c;
    }
  }
  return out;
}

std::string strftime_text(Runtime& rt, const std::string& format) {
  if (format.empty()) return {};
  if (format.size() > 1000) rt.fail("the date format is too long");
  const time_t now = rt.now ? static_cast<time_t>(*rt.now) : std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  // Only plain conversions: glibc would take widths as well.
  static constexpr std::string_view kFlags = "-_^#", kKnown = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%";
  std::string expanded;
  for (size_t i = 0; i < format.size(); ++i) {
    expanded += format[i];
    if (format[i] != '%') continue;
    if (i + 1 < format.size() && kFlags.find(format[i + 1]) != std::string_view::npos)
      expanded += format[++i];
    const char c = i + 1 < format.size() ? format[++i] : '\0';
    if (c == 'f') {  // microseconds: Python's, unknown to C
      expanded.erase(expanded.rfind('%'));
      expanded += "000000";
    } else if (kKnown.find(c) != std::string_view::npos) {
      expanded += c;
    } else {
      rt.fail("unknown conversion in a date format");
    }
  }
  std::string out(expanded.size() * 40 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), expanded.c_str(), &parts));
  return out;
}

}  // namespace octavo::jinja
