// Methods of str, dict and list. Those that would change their object are refused, as in jinja2's immutable
// sandbox.
#include <algorithm>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/split.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

Value strip_method(Runtime& rt, const Value& self, const Args& a, bool left, bool right) {
  rt.budget.step(self.text().size());
  if (!a.set(0)) return rt.str(std::string(strip(self.text(), left, right)));
  const std::string_view chars = a.text(rt, 0);
  return rt.str(std::string(strip(self.text(), left, right, &chars)));
}
Value str_strip(Runtime& rt, const Value& self, Args& a) { return strip_method(rt, self, a, true, true); }
Value str_lstrip(Runtime& rt, const Value& self, Args& a) { return strip_method(rt, self, a, true, false); }
Value str_rstrip(Runtime& rt, const Value& self, Args& a) { return strip_method(rt, self, a, false, true); }

template <std::string (*kConvert)(std::string_view)>
Value str_convert(Runtime& rt, const Value& self, Args&) {
  rt.budget.step(16 * self.text().size());
  return rt.str(kConvert(self.text()));
}

Value str_split(Runtime& rt, const Value& self, Args& a) {
  return split(rt, self.text(), a.set(0) ? &a.text(rt, 0) : nullptr, a.integer(rt, 1, -1), false);
}
Value str_rsplit(Runtime& rt, const Value& self, Args& a) {
  return split(rt, self.text(), a.set(0) ? &a.text(rt, 0) : nullptr, a.integer(rt, 1, -1), true);
}
Value str_splitlines(Runtime& rt, const Value& self, Args& a) {
  return split_lines(rt, self.text(), a.flag(0, false));
}

/// self[start:end] of find, count, startswith, as bytes; `offset` gets the code points before it. False if
/// the range is empty beyond the end (Python finds nothing there, not even "").
bool window(Runtime& rt, const Value& self, const Args& a, std::string_view& out, int64_t& offset) {
  const int64_t n = self.str().length;
  const auto place = [&](size_t i, int64_t otherwise) {
    const int64_t v = a.integer(rt, i, otherwise);
    return v < 0 ? std::max<int64_t>(v >= -n ? v + n : 0, 0) : v;
  };
  const int64_t start = place(1, 0), end = std::min(place(2, n), n);
  offset = start;
  if (start > end) return false;
  const std::string_view text = self.text();
  const size_t begin = byte_offset(text, start);
  out = text.substr(begin, byte_offset(text.substr(begin), end - start));
  rt.budget.step(text.size());
  return true;
}

Value find_method_of(Runtime& rt, const Value& self, const Args& a, bool last, bool must) {
  std::string_view in;
  int64_t offset = 0;
  const std::string& what = a.text(rt, 0);
  if (window(rt, self, a, in, offset)) {
    const size_t at = last ? in.rfind(what) : in.find(what);
    if (at != std::string_view::npos) return Value::integer(offset + count_code_points(in.substr(0, at)));
  }
  if (must) rt.fail("substring not found");
  return Value::integer(-1);
}
Value str_find(Runtime& rt, const Value& self, Args& a) { return find_method_of(rt, self, a, false, false); }
Value str_rfind(Runtime& rt, const Value& self, Args& a) { return find_method_of(rt, self, a, true, false); }
Value str_index(Runtime& rt, const Value& self, Args& a) { return find_method_of(rt, self, a, false, true); }
Value str_rindex(Runtime& rt, const Value& self, Args& a) { return find_method_of(rt, self, a, true, true); }

Value str_count(Runtime& rt, const Value& self, Args& a) {
  std::string_view in;
  int64_t offset = 0, count = 0;
  const std::string& what = a.text(rt, 0);
  if (!window(rt, self, a, in, offset)) return Value::integer(0);
  if (what.empty()) return Value::integer(count_code_points(in) + 1);
  for (size_t at = in.find(what); at != std::string_view::npos; at = in.find(what, at + what.size())) ++count;
  return Value::integer(count);
}

Value affix(Runtime& rt, const Value& self, const Args& a, bool front) {
  std::string_view in;
  int64_t offset = 0;
  if (!a[0].is_str() && !a[0].is_seq(SeqType::kTuple)) need_defined(rt.budget, a[0]), a.text(rt, 0);
  const bool ok = window(rt, self, a, in, offset);
  const auto matches = [&](const Value& v) {
    if (!v.is_str()) rt.fail("expected a string, got a " + type_name(v));
    return ok && (front ? in.starts_with(v.text()) : in.ends_with(v.text()));
  };
  if (a[0].is_str()) return Value::boolean(matches(a[0]));
  const auto& options = a[0].seq().items;
  return Value::boolean(std::any_of(options.begin(), options.end(), matches));
}
Value str_startswith(Runtime& rt, const Value& self, Args& a) { return affix(rt, self, a, true); }
Value str_endswith(Runtime& rt, const Value& self, Args& a) { return affix(rt, self, a, false); }

Value str_replace(Runtime& rt, const Value& self, Args& a) {
  return rt.str(replace(rt, self.text(), a.text(rt, 0), a.text(rt, 1), a.integer(rt, 2, -1)));
}

Value str_join(Runtime& rt, const Value& self, Args& a) {
  std::string out;
  bool first = true;
  for (const Value& v : iterate(rt.budget, a[0])) {
    if (!v.is_str()) rt.fail("join: expected a str, got a " + type_name(v));
    if (!std::exchange(first, false)) append_text(rt, out, self);
    append_text(rt, out, v);
  }
  return rt.str(std::move(out));
}

Value str_format(Runtime& rt, const Value& self, Args& a) { return rt.str(format_text(rt, self.text(), a)); }

Value str_removeprefix(Runtime& rt, const Value& self, Args& a) {
  const std::string& prefix = a.text(rt, 0);
  return self.text().starts_with(prefix) ? rt.str(self.text().substr(prefix.size())) : self;
}
Value str_removesuffix(Runtime& rt, const Value& self, Args& a) {
  const std::string& suffix = a.text(rt, 0);
  return self.text().ends_with(suffix) ? rt.str(self.text().substr(0, self.text().size() - suffix.size()))
                                       : self;
}

Value partition(Runtime& rt, const Value& self, const Args& a, bool last) {
  const std::string &text = self.text(), &sep = a.text(rt, 0);
  if (sep.empty()) rt.fail("empty separator");
  rt.budget.step(text.size());
  const size_t at = last ? text.rfind(sep) : text.find(sep);
  std::vector<Value> out;
  if (at == std::string::npos)
    out = last ? std::vector<Value>{rt.str(""), rt.str(""), self}
               : std::vector<Value>{self, rt.str(""), rt.str("")};
  else
    out = {rt.str(text.substr(0, at)), a[0], rt.str(text.substr(at + sep.size()))};
  return rt.list(std::move(out), SeqType::kTuple);
}
Value str_partition(Runtime& rt, const Value& self, Args& a) { return partition(rt, self, a, false); }
Value str_rpartition(Runtime& rt, const Value& self, Args& a) { return partition(rt, self, a, true); }

Value justify(Runtime& rt, const Value& self, const Args& a, bool left, bool right) {
  const int64_t missing = a.integer(rt, 0, 0) - self.str().length;
  const std::string fill = a.has(1) ? a.text(rt, 1) : " ";
  if (count_code_points(fill) != 1) rt.fail("the fill character must be exactly one character long");
  if (missing <= 0) return self;
  rt.budget.check_text(static_cast<size_t>(missing));
  // Python's center puts the odd one on the left if the width is odd.
  const int64_t before = !left ? 0 : !right ? missing : missing / 2 + (missing & a.integer(rt, 0, 0) & 1);
  std::string out;
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += self.text();
  for (int64_t i = before; i < missing; ++i) out += fill;
  return rt.str(std::move(out));
}
Value str_center(Runtime& rt, const Value& self, Args& a) { return justify(rt, self, a, true, true); }
Value str_ljust(Runtime& rt, const Value& self, Args& a) { return justify(rt, self, a, false, true); }
Value str_rjust(Runtime& rt, const Value& self, Args& a) { return justify(rt, self, a, true, false); }
Value str_zfill(Runtime& rt, const Value& self, Args& a) {
  const int64_t missing = a.integer(rt, 0, 0) - self.str().length;
  if (missing <= 0) return self;
  rt.budget.check_text(static_cast<size_t>(missing));
  const bool sign = !self.text().empty() && (self.text()[0] == '-' || self.text()[0] == '+');
  std::string out = self.text();
  return rt.str(out.insert(sign ? 1 : 0, static_cast<size_t>(missing), '0'));
}

template <Value (*kTest)(const Value&)>
Value str_is(Runtime& rt, const Value& self, Args&) {
  rt.budget.step(16 * self.text().size());
  return kTest(self);
}

Value dict_items(Runtime& rt, const Value& self, Args&) { return items_of(rt, self, SeqType::kItems); }
Value dict_keys(Runtime& rt, const Value& self, Args&) { return items_of(rt, self, SeqType::kKeys); }
Value dict_values(Runtime& rt, const Value& self, Args&) { return items_of(rt, self, SeqType::kValues); }
Value dict_get(Runtime& rt, const Value& self, Args& a) {
  if (a[0].is_seq() || a[0].is_dict()) rt.fail("unhashable type: '" + type_name(a[0]) + "'");
  const Value* found = self.dict().find(a[0]);
  return found ? *found : a.has(1) ? a[1] : Value::none();
}
Value copy(Runtime&, const Value& self, Args&) { return self; }

Value list_index(Runtime& rt, const Value& self, Args& a) {
  const auto& items = self.seq().items;
  const auto n = static_cast<int64_t>(items.size());
  const auto place = [&](size_t i, int64_t otherwise) {
    const int64_t v = a.integer(rt, i, otherwise);
    return std::clamp<int64_t>(v < 0 ? (v >= -n ? v + n : 0) : v, 0, n);
  };
  for (int64_t i = place(1, 0), end = place(2, n); i < end; ++i)
    if (equals(rt.budget, items[static_cast<size_t>(i)], a[0])) return Value::integer(i);
  rt.fail(repr(rt, a[0]) + " is not in list");
}
Value list_count(Runtime& rt, const Value& self, Args& a) {
  int64_t n = 0;
  for (const Value& v : self.seq().items) n += equals(rt.budget, v, a[0]);
  return Value::integer(n);
}

constexpr Builtin kStrMethods[] = {
    {"strip", "/chars=", str_strip},
    {"lstrip", "/chars=", str_lstrip},
    {"rstrip", "/chars=", str_rstrip},
    {"upper", "", str_convert<to_upper>},
    {"lower", "", str_convert<to_lower>},
    {"casefold", "", str_convert<to_lower>},
    {"title", "", str_convert<to_title>},
    {"capitalize", "", str_convert<to_capitalised>},
    {"swapcase", "", str_convert<swap_case>},
    {"split", "sep= maxsplit=", str_split},
    {"rsplit", "sep= maxsplit=", str_rsplit},
    {"splitlines", "keepends=", str_splitlines},
    {"startswith", "/prefix /start= /end=", str_startswith},
    {"endswith", "/suffix /start= /end=", str_endswith},
    {"find", "/sub /start= /end=", str_find},
    {"rfind", "/sub /start= /end=", str_rfind},
    {"index", "/sub /start= /end=", str_index},
    {"rindex", "/sub /start= /end=", str_rindex},
    {"count", "/sub /start= /end=", str_count},
    {"replace", "/old /new /count=", str_replace},
    {"join", "/iterable", str_join},
    {"format", "*", str_format},
    {"removeprefix", "/prefix", str_removeprefix},
    {"removesuffix", "/suffix", str_removesuffix},
    {"partition", "/sep", str_partition},
    {"rpartition", "/sep", str_rpartition},
    {"center", "/width /fillchar=", str_center},
    {"ljust", "/width /fillchar=", str_ljust},
    {"rjust", "/width /fillchar=", str_rjust},
    {"zfill", "/width", str_zfill},
    {"isalpha", "", str_is<is_alpha>},
    {"isdigit", "", str_is<is_digit>},
    {"isnumeric", "", str_is<is_numeric>},
    {"isdecimal", "", str_is<is_decimal>},
    {"isalnum", "", str_is<is_alnum>},
    {"isspace", "", str_is<is_space_str>},
    {"islower", "", str_is<is_lower>},
    {"isupper", "", str_is<is_upper>},
};
constexpr Builtin kDictMethods[] = {
    {"items", "", dict_items},           {"keys", "", dict_keys}, {"values", "", dict_values},
    {"get", "/key /default=", dict_get}, {"copy", "", copy},
};
constexpr Builtin kListMethods[] = {
    {"index", "/value /start= /stop=", list_index},
    {"count", "/value", list_count},
    {"copy", "", copy},
};

Table methods_of(const Value& object) {
  if (object.is_str()) return {kStrMethods, std::size(kStrMethods)};
  if (object.is_dict()) return {kDictMethods, std::size(kDictMethods)};
  if (object.is_seq(SeqType::kList)) return {kListMethods, std::size(kListMethods)};
  // A tuple has no copy.
  if (object.is_seq() && object.seq().type < SeqType::kRange)
    return {kListMethods, std::size(kListMethods) - 1};
  return object_methods(object.kind());
}

}  // namespace

const Builtin* find_method(const Value& object, std::string_view name) {
  const auto [rows, count] = methods_of(object);
  for (size_t i = 0; i < count; ++i)
    if (rows[i].name == name) return &rows[i];
  return nullptr;
}

bool is_mutating_method(const Value& object, std::string_view name) {
  static constexpr std::string_view kList[] = {"append", "/clear", "extend",  "insert",
                                               "pop",    "remove", "reverse", "sort"};
  static constexpr std::string_view kDict[] = {"clear", "/pop", "popitem", "setdefault", "update"};
  if (object.is_seq(SeqType::kList))
    return std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
  return object.is_dict() && std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
}

}  // namespace octavo::jinja
