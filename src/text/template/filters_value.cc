#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

/// Digits of Python's number literals in text: stripped, without sign, single underscores between digits
/// dropped. False if the underscores are misplaced.
bool plain_digits(std::string_view text, bool& negative, std::string& out) {
  text = strip(text, true, true);
  negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between) return false;
  }
  return !out.empty() && out[0] != '-' && out[0] != '+';
}

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  bool negative = false;
  std::string digits;
  if (base < 2 || base > 36 || !plain_digits(text, negative, digits)) return std::nullopt;
  static constexpr std::pair<char, int> kMarks[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  for (const auto& [mark, of] : kMarks)
    if (base == of && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == mark) digits.erase(0, 2);
  int64_t value = 0;
  if (negative) digits.insert(0, 1, '-');
  const auto end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value, static_cast<int>(base));
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  bool negative = false;
  std::string digits;
  if (!plain_digits(text, negative, digits)) return std::nullopt;
  double value = 0;
  const auto end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range) return std::nullopt;
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return negative ? -value : value;
}

std::optional<int64_t> truncated(double d) {
  if (!(std::fabs(d) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(d);
}

Value to_int(Runtime& rt, const Value& v, Args& a) {
  need_defined(rt.budget, v);
  if (v.is_integral()) return Value::integer(v.integer());
  if (v.is(Kind::kBigInt)) return v;
  std::optional<int64_t> found;
  if (v.is(Kind::kFloat)) found = truncated(v.number());
  if (v.is_str()) {
    found = parse_integer(v.text(), a.integer(rt, 1, 10));
    if (const auto d = found ? std::nullopt : parse_float(v.text())) found = truncated(*d);
  }
  return found ? Value::integer(*found) : a.has(0) ? a[0] : Value::integer(0);
}

Value to_float(Runtime& rt, const Value& v, Args& a) {
  need_defined(rt.budget, v);
  if (v.is_numeric()) return Value::number(v.number());
  if (const auto d = v.is_str() ? parse_float(v.text()) : std::nullopt) return Value::number(*d);
  return a.has(0) ? a[0] : Value::number(0);
}

Value absolute(Runtime& rt, const Value& v, Args&) {
  need_defined(rt.budget, v);
  if (v.is(Kind::kFloat)) return Value::number(std::fabs(v.number()));
  if (!v.is_integral()) rt.fail("bad operand type for abs(): '" + type_name(v) + "'");
  return v.integer() < 0 ? negative(rt, v) : Value::integer(v.integer());
}

/// Half to even on the exact binary value, as Python: the C library's decimal conversion does just that.
double round_half_even(double d, int64_t digits) {
  if (!std::isfinite(d) || digits > 323) return d;
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(std::min<int64_t>(-digits, 400)));
    return std::isinf(unit) ? std::copysign(0.0, d) : std::nearbyint(d / unit) * unit;
  }
  char buffer[700];
  const int n = std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), d);
  double out = 0;
  std::from_chars(buffer, buffer + n, out);
  return out;
}

Value round(Runtime& rt, const Value& v, Args& a) {
  need_defined(rt.budget, v);
  const int64_t digits = a.integer(rt, 0, 0);
  const std::string method = a.has(1) ? a.text(rt, 1) : "common";
  if (!v.is_numeric()) rt.fail("round: expected a number, got a " + type_name(v));
  if (method == "common") {
    if (!v.is_integral()) return Value::number(round_half_even(v.number(), digits));
    return digits >= 0 ? Value::integer(v.integer())
                       : Value::integer(truncated(round_half_even(v.number(), digits)).value_or(0));
  }
  if (method != "ceil" && method != "floor") rt.fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits)), scaled = v.number() * unit;
  return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value otherwise(Runtime& rt, const Value& v, Args& a) {
  if (!v.is_undefined() && !(a.flag(1, false) && !truthy(v))) return v;
  return a.has(0) ? a[0] : rt.str("");
}

Value attr(Runtime& rt, const Value& v, Args& a) {
  const Value name = rt.str(to_text(rt, a[0]));
  if (v.is_dict() && !find_method(v, name.text()))
    return rt.undefined("'dict object' has no attribute '" + name.text() + "'");
  return get_attribute(rt, v, name);
}

Value tojson(Runtime& rt, const Value& v, Args& a) {
  JsonStyle style;
  style.ascii = a.flag(0, false);
  style.multiline = a.set(1);
  if (style.multiline) {
    style.item_separator = ",";
    const int64_t width = a[1].is_str() ? 0 : a.integer(rt, 1, 0);
    if (width > 1000) rt.fail("tojson: the indent is too big");
    style.indent =
        a[1].is_str() ? a[1].text() : std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  if (a.set(2)) {
    const auto both = iterate(rt.budget, a[2]);
    if (both.size() != 2 || !both[0].is_str() || !both[1].is_str())
      rt.fail("tojson: separators must be two strings");
    style.item_separator = both[0].text();
    style.key_separator = both[1].text();
  }
  style.sort_keys = a.flag(3, false);
  return rt.str(to_json(rt, v, style));
}

constexpr Builtin kRows[] = {
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", tojson},
    {"default", "default_value= boolean=", otherwise},
    {"d", "default_value= boolean=", otherwise},
    {"int", "default= base=", to_int},
    {"float", "default=", to_float},
    {"abs", "", absolute},
    {"round", "precision= method=", round},
    {"attr", "name", attr},
};

}  // namespace

Table value_filters() { return {kRows, std::size(kRows)}; }

}  // namespace octavo::jinja
