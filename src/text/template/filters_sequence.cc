#include <algorithm>
#include <unordered_set>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/split.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

Value iterator(Runtime& rt, std::vector<Value> items) {
  return rt.list(std::move(items), SeqType::kIterator);
}

Value length_filter(Runtime& rt, const Value& v, Args&) { return Value::integer(length(rt, v)); }
Value list(Runtime& rt, const Value& v, Args&) { return rt.list(iterate(rt.budget, v)); }

Value first(Runtime& rt, const Value& v, Args&) {
  if (v.is_seq(SeqType::kIterator)) {
    const Seq& seq = v.seq();
    if (seq.next < seq.items.size()) return seq.items[seq.next++];
  } else if (v.is_str()) {
    if (!v.text().empty()) return rt.str(v.text().substr(0, char_bytes(v.text(), 0)));
  } else if (auto items = iterate(rt.budget, v); !items.empty()) {
    return items.front();
  }
  return rt.undefined("No first item, sequence was empty.");
}

Value last(Runtime& rt, const Value& v, Args&) {
  if (v.is_seq(SeqType::kIterator)) rt.fail("'generator' object is not reversible");
  const auto items = iterate(rt.budget, v);
  return items.empty() ? rt.undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(Runtime& rt, const Value& v, Args&) {
  auto items = iterate(rt.budget, v);
  std::reverse(items.begin(), items.end());
  if (v.is_seq(SeqType::kIterator)) return rt.list(std::move(items));
  if (!v.is_str()) return iterator(rt, std::move(items));
  std::string out;
  for (const Value& c : items) out += c.text();
  return rt.str(std::move(out));
}

Value join(Runtime& rt, const Value& v, Args& a) {
  const std::string separator = a.has(0) ? to_text(rt, a[0]) : "";
  std::string out;
  bool first_item = true;
  for (const Value& item : iterate(rt.budget, v)) {
    if (!std::exchange(first_item, false)) out += separator;
    append_text(rt, out, a.set(1) ? get_path(rt, item, a[1]) : item);
    rt.budget.check_text(out.size());
  }
  return rt.str(std::move(out));
}

/// The rest of map's or select's arguments, for the filter or test that their first one names.
Args inner_arguments(Args& a, size_t skip) {
  Args out;
  out.positional.assign(a.positional.begin() + static_cast<ptrdiff_t>(skip), a.positional.end());
  out.named = a.named;
  return out;
}

Value map(Runtime& rt, const Value& v, Args& a) {
  std::vector<Value> out;
  if (a.positional.empty()) {
    Value path, otherwise = Value::none();
    for (auto& [name, value] : a.named) {
      if (name != "attribute" && name != "default") rt.fail("map: unexpected argument '" + name + "'");
      (name == "attribute" ? path : otherwise) = value;
    }
    if (path.is_undefined()) rt.fail("map requires a filter argument");
    for (const Value& item : iterate(rt.budget, v)) {
      Value found = get_path(rt, item, path);
      out.push_back(found.is_undefined() && !otherwise.is_none() ? otherwise : std::move(found));
    }
    return iterator(rt, std::move(out));
  }
  const Builtin* filter = find_filter(a.text(rt, 0));
  if (!filter) rt.fail("no filter named '" + a.text(rt, 0) + "'");
  for (const Value& item : iterate(rt.budget, v))
    out.push_back(apply(rt, *filter, item, inner_arguments(a, 1)));
  return iterator(rt, std::move(out));
}

Value choose(Runtime& rt, const Value& v, Args& a, bool wanted, bool by_attribute) {
  const size_t name = by_attribute ? 1 : 0;
  if (by_attribute && a.positional.empty()) rt.fail("an attribute is missing");
  const Builtin* test = nullptr;
  if (a.positional.size() > name) {
    test = find_test(a.text(rt, name));
    if (!test) rt.fail("no test named '" + a.text(rt, name) + "'");
  }
  std::vector<Value> out;
  for (const Value& item : iterate(rt.budget, v)) {
    const Value subject = by_attribute ? get_path(rt, item, a[0]) : item;
    const bool yes = test ? truthy(apply(rt, *test, subject, inner_arguments(a, name + 1))) : truthy(subject);
    if (yes == wanted) out.push_back(item);
  }
  return iterator(rt, std::move(out));
}
Value select(Runtime& rt, const Value& v, Args& a) { return choose(rt, v, a, true, false); }
Value reject(Runtime& rt, const Value& v, Args& a) { return choose(rt, v, a, false, false); }
Value selectattr(Runtime& rt, const Value& v, Args& a) { return choose(rt, v, a, true, true); }
Value rejectattr(Runtime& rt, const Value& v, Args& a) { return choose(rt, v, a, false, true); }

Value folded(Runtime& rt, const Value& v, bool case_sensitive) {
  return v.is_str() && !case_sensitive ? rt.str(to_lower(v.text())) : v;
}

/// By what sort, min, max, unique and groupby compare an item; several paths, as in sort(attribute='a,b'),
/// give a tuple.
Value sort_key(Runtime& rt, const Value& item, const Value* attribute, bool case_sensitive) {
  if (!attribute) return folded(rt, item, case_sensitive);
  if (!attribute->is_str() || attribute->text().find(',') == std::string::npos)
    return folded(rt, get_path(rt, item, *attribute), case_sensitive);
  const std::string comma = ",";
  std::vector<Value> keys;
  const Value paths = split(rt, attribute->text(), &comma, -1, false);
  for (const Value& path : paths.seq().items)
    keys.push_back(folded(rt, get_path(rt, item, path), case_sensitive));
  return rt.list(std::move(keys));
}

using Keyed = std::vector<std::pair<Value, Value>>;  // key, item

Keyed keyed(Runtime& rt, const Value& v, const Value* attribute, bool case_sensitive) {
  Keyed out;
  for (Value& item : iterate(rt.budget, v)) {
    Value key = sort_key(rt, item, attribute, case_sensitive);
    out.emplace_back(std::move(key), std::move(item));
  }
  return out;
}

void sort_keyed(Runtime& rt, Keyed& items, bool reversed) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return reversed ? less(rt.budget, b.first, a.first) : less(rt.budget, a.first, b.first);
  });
}

Value items_only(Runtime& rt, Keyed items) {
  std::vector<Value> out;
  for (auto& item : items) out.push_back(std::move(item.second));
  return rt.list(std::move(out));
}

const Value* optional(const Args& a, size_t i) { return a.set(i) ? &a[i] : nullptr; }

Value sort(Runtime& rt, const Value& v, Args& a) {
  Keyed items = keyed(rt, v, optional(a, 2), a.flag(1, false));
  sort_keyed(rt, items, a.flag(0, false));
  return items_only(rt, std::move(items));
}

Value dictsort(Runtime& rt, const Value& v, Args& a) {
  need_defined(rt.budget, v);
  if (!v.is_dict()) rt.fail("dictsort: expected a dict, got a " + type_name(v));
  const std::string by = a.has(1) ? a.text(rt, 1) : "key";
  if (by != "key" && by != "value") rt.fail("dictsort: sort by either \"key\" or \"value\"");
  Keyed items;
  for (const auto& [key, value] : v.dict().items)
    items.emplace_back(folded(rt, by == "key" ? key : value, a.flag(0, false)),
                       rt.list({key, value}, SeqType::kTuple));
  sort_keyed(rt, items, a.flag(2, false));
  return items_only(rt, std::move(items));
}

Value unique(Runtime& rt, const Value& v, Args& a) {
  std::unordered_set<Value, KeyHash, KeyEqual> seen;
  std::vector<Value> out;
  for (auto& [key, item] : keyed(rt, v, optional(a, 1), a.flag(0, false))) {
    if (!is_key(key)) rt.fail("unhashable type: '" + type_name(key) + "'");
    if (seen.insert(key).second) out.push_back(item);
  }
  return iterator(rt, std::move(out));
}

Value extreme(Runtime& rt, const Value& v, const Args& a, bool largest) {
  const Keyed items = keyed(rt, v, optional(a, 1), a.flag(0, false));
  if (items.empty()) return rt.undefined("No aggregated item, sequence was empty.");
  const auto* best = &items[0];
  for (const auto& item : items)
    if (largest ? less(rt.budget, best->first, item.first) : less(rt.budget, item.first, best->first))
      best = &item;
  return best->second;
}
Value min(Runtime& rt, const Value& v, Args& a) { return extreme(rt, v, a, false); }
Value max(Runtime& rt, const Value& v, Args& a) { return extreme(rt, v, a, true); }

Value sum(Runtime& rt, const Value& v, Args& a) {
  Value total = a.has(1) ? a[1] : Value::integer(0);
  for (const Value& item : iterate(rt.budget, v)) {
    const Value& term = a.set(0) ? get_path(rt, item, a[0]) : item;
    if (total.is_str()) rt.fail("sum() can't sum strings");
    total = binary(rt, Op::kAdd, total, term);
  }
  return total;
}

Value groupby(Runtime& rt, const Value& v, Args& a) {
  const bool case_sensitive = a.flag(2, false);
  Keyed items;
  const auto value_of = [&](const Value& item) {
    const Value found = get_path(rt, item, a[0]);
    return found.is_undefined() && a.set(1) ? a[1] : found;
  };
  for (Value& item : iterate(rt.budget, v))
    items.emplace_back(folded(rt, value_of(item), case_sensitive), item);
  sort_keyed(rt, items, false);
  std::vector<Value> out;
  for (size_t begin = 0, end; begin < items.size(); begin = end) {
    std::vector<Value> group;
    for (end = begin; end < items.size() && equals(rt.budget, items[end].first, items[begin].first); ++end)
      group.push_back(items[end].second);
    if (end == begin) ++end;  // NaN equals nothing
    out.push_back(rt.list({value_of(items[begin].second), rt.list(std::move(group))}, SeqType::kGroup));
  }
  return rt.list(std::move(out));
}

Value batch(Runtime& rt, const Value& v, Args& a) {
  const int64_t size = a.integer(rt, 0, 0);
  if (size < 1) rt.fail("batch: the size must be positive");
  std::vector<Value> out, row;
  const auto flush = [&] { out.push_back(rt.list(std::exchange(row, {}))); };
  for (Value& item : iterate(rt.budget, v)) {
    if (static_cast<int64_t>(row.size()) == size) flush();
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (a.set(1) && size > rt.budget.limits().range_items) rt.fail("batch: the size is too big");
    if (a.set(1)) row.resize(static_cast<size_t>(size), a[1]);
    flush();
  }
  return iterator(rt, std::move(out));
}

Value slice(Runtime& rt, const Value& v, Args& a) {
  const auto items = iterate(rt.budget, v);
  const int64_t slices = a.integer(rt, 0, 0), n = static_cast<int64_t>(items.size());
  if (slices < 1 || slices > rt.budget.limits().range_items) rt.fail("slice: bad number of slices");
  std::vector<Value> out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t count = n / slices + (i < n % slices ? 1 : 0);
    std::vector<Value> part(items.begin() + at, items.begin() + at + count);
    if (a.set(1) && i >= n % slices) part.push_back(a[1]);
    out.push_back(rt.list(std::move(part)));
    at += count;
  }
  return iterator(rt, std::move(out));
}

Value items(Runtime& rt, const Value& v, Args&) {
  if (v.is_undefined()) return iterator(rt, {});
  if (!v.is_dict()) rt.fail("Can only get item pairs from a mapping.");
  return items_of(rt, v, SeqType::kIterator);
}

constexpr Builtin kRows[] = {
    {"length", "", length_filter},
    {"count", "", length_filter},
    {"list", "", list},
    {"first", "", first},
    {"last", "", last},
    {"reverse", "", reverse},
    {"join", "d= attribute=", join},
    {"map", "*", map},
    {"select", "*", select},
    {"reject", "*", reject},
    {"selectattr", "*", selectattr},
    {"rejectattr", "*", rejectattr},
    {"sort", "reverse= case_sensitive= attribute=", sort},
    {"dictsort", "case_sensitive= by= reverse=", dictsort},
    {"unique", "case_sensitive= attribute=", unique},
    {"min", "case_sensitive= attribute=", min},
    {"max", "case_sensitive= attribute=", max},
    {"sum", "attribute= start=", sum},
    {"groupby", "attribute default= case_sensitive=", groupby},
    {"batch", "linecount fill_with=", batch},
    {"slice", "slices fill_with=", slice},
    {"items", "", items},
};

}  // namespace

Table sequence_filters() { return {kRows, std::size(kRows)}; }

}  // namespace octavo::jinja
