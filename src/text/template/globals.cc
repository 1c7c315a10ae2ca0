// Global functions, and the objects that they make.
#include "text/template/operations.h"
#include "text/template/print.h"

namespace octavo::jinja {
namespace {

Value range(Runtime& rt, const Value&, Args& a) {
  const int64_t first = a.integer(rt, 0, 0);
  const bool one = !a.has(1);
  const int64_t start = one ? 0 : first, stop = one ? first : a.integer(rt, 1, 0), step = a.integer(rt, 2, 1);
  if (step == 0) rt.fail("range() arg 3 must not be zero");
  std::vector<Value> items;
  const int64_t limit = rt.budget.limits().range_items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= limit) rt.fail("the range is too big");
    items.push_back(Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return rt.list(std::move(items), SeqType::kRange);
}

/// dict(mapping or pairs, name=value, ...)
std::vector<std::pair<Value, Value>> dict_arguments(Runtime& rt, Args& a) {
  std::vector<std::pair<Value, Value>> items;
  if (a.positional.size() > 1) rt.fail("dict expected at most 1 argument");
  if (!a.positional.empty() && a.positional[0].is_dict()) {
    items = a.positional[0].dict().items;
  } else if (!a.positional.empty()) {
    for (const Value& pair : iterate(rt.budget, a.positional[0])) {
      auto both = iterate(rt.budget, pair);
      if (both.size() != 2) rt.fail("dict: expected pairs");
      items.emplace_back(std::move(both[0]), std::move(both[1]));
    }
  }
  for (auto& [name, value] : a.named) items.emplace_back(rt.str(name), std::move(value));
  return items;
}

Value dict(Runtime& rt, const Value&, Args& a) { return Value::dict(rt.budget, dict_arguments(rt, a)); }

Value make_namespace(Runtime& rt, const Value&, Args& a) {
  auto items = dict_arguments(rt, a);
  rt.budget.allocate(sizeof(Namespace) + 64);
  rt.namespaces.push_back(std::make_unique<Namespace>());
  Value out = Value::unowned(Kind::kNamespace, rt.namespaces.back().get());
  for (auto& [name, value] : items) {
    if (!name.is_str()) rt.fail("a name in a namespace must be a string");
    set_attribute(rt, out, name.text(), std::move(value));
  }
  return out;
}

Value cycler(Runtime& rt, const Value&, Args& a) {
  if (a.positional.empty() || !a.named.empty()) rt.fail("cycler: at least one item has to be provided");
  return Value::object(Kind::kCycler, std::make_shared<Cycler>(Cycler{std::move(a.positional), 0}));
}

Value joiner(Runtime& rt, const Value&, Args& a) {
  return Value::object(Kind::kJoiner, std::make_shared<Joiner>(Joiner{a.has(0) ? a[0] : rt.str(", ")}));
}

Value raise_exception(Runtime& rt, const Value&, Args& a) { rt.fail(to_text(rt, a[0])); }

Value strftime_now(Runtime& rt, const Value&, Args& a) { return rt.str(strftime_text(rt, a.text(rt, 0))); }

Value cycler_next(Runtime&, const Value& self, Args&) {
  auto& c = self.as<Cycler>();
  Value out = c.items[c.next];
  c.next = (c.next + 1) % c.items.size();
  return out;
}
Value cycler_reset(Runtime&, const Value& self, Args&) {
  self.as<Cycler>().next = 0;
  return Value::none();
}

Value loop_cycle(Runtime& rt, const Value& self, Args& a) {
  if (a.positional.empty()) rt.fail("no items for cycling given");
  return a.positional[static_cast<size_t>(self.as<Loop>().index0) % a.positional.size()];
}

Value loop_changed(Runtime& rt, const Value& self, Args& a) {
  auto& last = self.as<Loop>().changed;
  bool same = last.size() == a.positional.size() && !last.empty();
  for (size_t i = 0; same && i < last.size(); ++i) same = equals(rt.budget, last[i], a.positional[i]);
  if (!same) last = std::move(a.positional);
  return Value::boolean(!same);
}

constexpr Builtin kGlobals[] = {
    {"range", "start stop= step=", range},
    {"dict", "*", dict},
    {"namespace", "*", make_namespace},
    {"cycler", "*", cycler},
    {"joiner", "sep=", joiner},
    {"raise_exception", "message", raise_exception},
    {"strftime_now", "format", strftime_now},
};
constexpr Builtin kCyclerMethods[] = {{"next", "", cycler_next}, {"reset", "", cycler_reset}};
constexpr Builtin kLoopMethods[] = {{"cycle", "*", loop_cycle}, {"changed", "*", loop_changed}};

}  // namespace

const Builtin* find_global(std::string_view name) {
  for (const Builtin& global : kGlobals)
    if (global.name == name) return &global;
  return nullptr;
}

Table object_methods(Kind kind) {
  if (kind == Kind::kCycler) return {kCyclerMethods, std::size(kCyclerMethods)};
  if (kind == Kind::kLoop) return {kLoopMethods, std::size(kLoopMethods)};
  return {nullptr, 0};
}

void set_attribute(Runtime& rt, const Value& object, const std::string& name, Value value) {
  if (!object.is(Kind::kNamespace)) rt.fail("cannot assign attribute on non-namespace object");
  if (name.starts_with('_')) rt.fail("a name in a namespace must not begin with '_'");
  auto& space = object.as<Namespace>();
  rt.budget.step(space.items.size() * sizeof(Value));
  if (Value* old = space.find(name)) {
    *old = std::move(value);
    return;
  }
  rt.budget.allocate(sizeof(Value) + sizeof(std::string) + name.size());
  space.items.emplace_back(name, std::move(value));
}

Value loop_attribute(Runtime& rt, const Loop& loop, std::string_view name) {
  const auto n = static_cast<int64_t>(loop.items->size());
  const int64_t i = loop.index0;
  if (name == "index") return Value::integer(i + 1);
  if (name == "index0") return Value::integer(i);
  if (name == "revindex") return Value::integer(n - i);
  if (name == "revindex0") return Value::integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i + 1 >= n);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(loop.depth0 + 1);
  if (name == "depth0") return Value::integer(loop.depth0);
  if (name == "previtem")
    return i > 0 && i <= n ? (*loop.items)[static_cast<size_t>(i - 1)]
                           : rt.undefined("there is no previous item");
  if (name == "nextitem")
    return i + 1 < n ? (*loop.items)[static_cast<size_t>(i + 1)] : rt.undefined("there is no next item");
  return Value();
}

}  // namespace octavo::jinja
