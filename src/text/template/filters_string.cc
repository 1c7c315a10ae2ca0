#include <algorithm>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/split.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

template <std::string (*kConvert)(std::string_view)>
Value convert(Runtime& rt, const Value& v, Args&) {
  const std::string text = to_text(rt, v);
  rt.budget.step(16 * text.size());
  return rt.str(kConvert(text));
}

/// jinja2's title differs from str.title: words begin after space, '-', '(', '{', '[' or '<'.
std::string title_words(std::string_view s) {
  std::string out;
  bool begins = true;
  for (size_t at = 0; at < s.size(); at += char_bytes(s, at)) {
    const std::string_view c = s.substr(at, char_bytes(s, at));
    const bool border = c.find_first_of("-({[<") != std::string_view::npos || is_space(code_point(s, at));
    out += border ? std::string(c) : begins ? to_upper(c) : to_lower(c);
    begins = border;
  }
  return out;
}

Value trim(Runtime& rt, const Value& v, Args& a) {
  const std::string text = to_text(rt, v);
  if (!a.set(0)) return rt.str(std::string(strip(text, true, true)));
  const std::string_view chars = a.text(rt, 0);
  return rt.str(std::string(strip(text, true, true, &chars)));
}

Value replace_filter(Runtime& rt, const Value& v, Args& a) {
  return rt.str(replace(rt, to_text(rt, v), to_text(rt, a[0]), to_text(rt, a[1]), a.integer(rt, 2, -1)));
}

Value string(Runtime& rt, const Value& v, Args&) { return v.is_str() ? v : rt.str(to_text(rt, v)); }
Value safe(Runtime& rt, const Value& v, Args&) { return rt.str(to_text(rt, v), true); }
Value escape(Runtime& rt, const Value& v, Args&) {
  if (v.is_str() && v.str().markup) return v;
  return rt.str(escape_html(to_text(rt, v)), true);
}
Value force_escape(Runtime& rt, const Value& v, Args&) { return rt.str(escape_html(to_text(rt, v)), true); }

Value center(Runtime& rt, const Value& v, Args& a) {
  const Value text = rt.str(to_text(rt, v));
  Args width;
  width.positional.push_back(Value::integer(a.integer(rt, 0, 80)));
  return apply(rt, *find_method(text, "center"), text, std::move(width));
}

Value format(Runtime& rt, const Value& v, Args& a) {
  if (!a.named.empty() && !a.positional.empty())
    rt.fail("format takes positional or named arguments, not both");
  Value values;
  if (a.named.empty()) {
    values = rt.list(std::move(a.positional), SeqType::kTuple);
  } else {
    std::vector<std::pair<Value, Value>> items;
    for (auto& [name, value] : a.named) items.emplace_back(rt.str(name), std::move(value));
    values = Value::dict(rt.budget, std::move(items));
  }
  return rt.str(printf_text(rt, to_text(rt, v), values));
}

Value indent(Runtime& rt, const Value& v, Args& a) {
  need_defined(rt.budget, v);
  if (!v.is_str()) rt.fail("indent: expected a string, got a " + type_name(v));
  const int64_t width = a.has(0) && a[0].is_str() ? 0 : a.integer(rt, 0, 4);
  rt.budget.check_text(static_cast<size_t>(std::max<int64_t>(width, 0)));
  const std::string margin = a.has(0) && a[0].is_str()
                                 ? a[0].text()
                                 : std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  const Value lines = split_lines(rt, v.text() + "\n", false);
  std::string out = a.flag(1, false) ? margin : "";
  bool first = true;
  for (const Value& line : lines.seq().items) {
    rt.budget.check_text(out.size() + margin.size() + line.text().size());
    if (!first) out += '\n';
    if (!first && (a.flag(2, false) || !line.text().empty())) out += margin;
    out += line.text();
    first = false;
  }
  return rt.str(std::move(out));
}

Value truncate(Runtime& rt, const Value& v, Args& a) {
  const std::string text = to_text(rt, v), end = a.has(2) ? a.text(rt, 2) : "...";
  const int64_t length = a.integer(rt, 0, 255), leeway = a.integer(rt, 3, 5), n = count_code_points(text);
  const int64_t keep = length - count_code_points(end);
  if (keep < 0 || leeway < 0) rt.fail("truncate: the length is too small");
  if (n - leeway <= length) return rt.str(text);
  std::string out = text.substr(0, byte_offset(text, keep));
  if (!a.flag(1, false)) out = out.substr(0, std::min(out.rfind(' '), out.size()));
  return rt.str(out + end);
}

Value wordcount(Runtime& rt, const Value& v, Args&) {
  const std::string text = to_text(rt, v);
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size(); at += char_bytes(text, at)) {
    const bool word = is_word(code_point(text, at));
    count += word && !inside;
    inside = word;
  }
  return Value::integer(count);
}

std::string url_quoted(const std::string& text, bool query) {
  static constexpr std::string_view kPlain = "_.-~";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                       kPlain.find(c) != std::string_view::npos || (c == '/' && !query);
    const auto byte = static_cast<unsigned char>(c);
    if (plain)
      out += c;
    else if (query && c == ' ')
      out += '+';
    else
      out += std::string("%") + "0123456789ABCDEF"[byte >> 4] + "0123456789ABCDEF"[byte & 15];
  }
  return out;
}

Value urlencode(Runtime& rt, const Value& v, Args&) {
  if (!v.is_dict() && !v.is_seq()) return rt.str(url_quoted(to_text(rt, v), false));
  std::string out;
  const Value pairs = v.is_dict() ? items_of(rt, v, SeqType::kList) : v;
  for (const Value& pair : iterate(rt.budget, pairs)) {
    const auto both = iterate(rt.budget, pair);
    if (both.size() != 2) rt.fail("urlencode: expected pairs");
    rt.budget.check_text(out.size());
    out += (out.empty() ? "" : "&") + url_quoted(to_text(rt, both[0]), true) + "=" +
           url_quoted(to_text(rt, both[1]), true);
  }
  return rt.str(std::move(out));
}

constexpr Builtin kRows[] = {
    {"upper", "", convert<to_upper>},
    {"lower", "", convert<to_lower>},
    {"capitalize", "", convert<to_capitalised>},
    {"title", "", convert<title_words>},
    {"trim", "chars=", trim},
    {"replace", "old new count=", replace_filter},
    {"string", "", string},
    {"safe", "", safe},
    {"escape", "", escape},
    {"e", "", escape},
    {"forceescape", "", force_escape},
    {"center", "width=", center},
    {"format", "*", format},
    {"indent", "width= first= blank=", indent},
    {"truncate", "length= killwords= end= leeway=", truncate},
    {"wordcount", "", wordcount},
    {"urlencode", "", urlencode},
};

}  // namespace

Table string_filters() { return {kRows, std::size(kRows)}; }

}  // namespace octavo::jinja
