#include "text/template/value.h"

#include <algorithm>
#include <cmath>

#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

constexpr size_t kIndexFrom = 9;  // smaller dicts are scanned

template <class T>
Value wrap(Kind kind, T object) {
  return Value::object(kind, std::make_shared<T>(std::move(object)));
}

Str make_str(Budget* budget, std::string text, bool markup) {
  if (budget) budget->step(text.size());
  const int64_t length = count_code_points(text);
  const size_t bytes = sizeof(Str) + text.capacity();
  return Str{std::move(text), length, markup, Charge(budget, bytes)};
}

int checked_depth(Budget& budget, int deepest) {
  if (deepest >= budget.limits().value_depth) budget.fail("lists or dicts are nested too deep");
  return deepest + 1;
}

}  // namespace

Value Value::string(Budget* budget, std::string text, bool markup) {
  return wrap(Kind::kStr, make_str(budget, std::move(text), markup));
}
Value Value::undefined(Budget* budget, std::string message) {
  return wrap(Kind::kUndefined, make_str(budget, std::move(message), false));
}
Value Value::big_integer(Budget* budget, std::string digits) {
  return wrap(Kind::kBigInt, make_str(budget, std::move(digits), false));
}

Value Value::seq(Budget& budget, std::vector<Value> items, SeqType type) {
  int deepest = 0;
  for (const Value& v : items) deepest = std::max(deepest, v.depth());
  const size_t bytes = sizeof(Seq) + items.capacity() * sizeof(Value);
  budget.step(bytes);
  return wrap(Kind::kSeq,
              Seq{type, checked_depth(budget, deepest), std::move(items), 0, Charge(&budget, bytes)});
}

Value Value::dict(Budget& budget, std::vector<std::pair<Value, Value>> items) {
  using Item = std::pair<Value, Value>;
  Dict dict{0, {}, {}, Charge(&budget, sizeof(Dict) + items.size() * (2 * sizeof(Item)))};
  budget.step(items.size() * sizeof(Item));
  const bool indexed = items.size() >= kIndexFrom;
  int deepest = 0;
  for (Item& item : items) {
    if (!is_key(item.first)) budget.fail("a " + type_name(item.first) + " cannot be the key of a dict");
    deepest = std::max(deepest, item.second.depth());
    // A repeated key keeps its first place and takes the last value.
    if (const Value* old = dict.find(item.first)) {
      const_cast<Value&>(*old) = std::move(item.second);
      continue;
    }
    if (indexed) dict.index.emplace(item.first, static_cast<uint32_t>(dict.items.size()));
    dict.items.push_back(std::move(item));
  }
  dict.depth = checked_depth(budget, deepest);
  return wrap(Kind::kDict, std::move(dict));
}

int Value::depth() const {
  if (is_seq()) return seq().depth;
  return is_dict() ? dict().depth : 0;
}

bool is_key(const Value& v) { return v.is_str() || v.is_none() || v.is_numeric() || v.is(Kind::kBigInt); }

size_t KeyHash::operator()(const Value& v) const {
  if (v.is_str() || v.is(Kind::kBigInt)) return (*this)(std::string_view(v.text()));
  if (v.is_numeric()) return std::hash<double>()(v.number());
  return 0;
}

bool KeyEqual::operator()(const Value& a, const Value& b) const {
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_numeric() && b.is_numeric()) return a.number() == b.number();
  if (a.kind() != b.kind()) return false;
  return a.is_none() || ((a.is_str() || a.is(Kind::kBigInt)) && a.text() == b.text());
}

template <class K>
const Value* Dict::find_as(const K& key) const {
  if (!index.empty()) {
    const auto it = index.find(key);
    return it == index.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [k, v] : items)
    if (KeyEqual()(k, key)) return &v;
  return nullptr;
}
template const Value* Dict::find_as(const Value&) const;
template const Value* Dict::find_as(const std::string_view&) const;

Value from_json(Budget& budget, const nlohmann::ordered_json& json, int depth) {
  if (depth > budget.limits().value_depth) budget.fail("the messages are nested too deep");
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned:
      if (const auto n = json.get<uint64_t>(); n > uint64_t{INT64_MAX})
        return Value::big_integer(&budget, std::to_string(n));
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_float:
      return Value::number(json.get<double>());
    case nlohmann::json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!valid_utf8(text)) budget.fail("a text in the messages is not UTF-8");
      return Value::string(&budget, text);
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(budget, item, depth + 1));
      return Value::seq(budget, std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      items.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        if (!valid_utf8(key)) budget.fail("a name in the messages is not UTF-8");
        items.emplace_back(Value::string(&budget, key), from_json(budget, item, depth + 1));
      }
      return Value::dict(budget, std::move(items));
    }
    default:
      return Value::none();
  }
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.integer() != 0;
    case Kind::kFloat:
      return v.number() != 0;
    case Kind::kStr:
      return !v.text().empty();
    case Kind::kSeq:
      return v.seq().type == SeqType::kIterator || !v.seq().items.empty();
    case Kind::kDict:
      return !v.dict().items.empty();
    default:
      return true;
  }
}

namespace {

bool equal_items(Budget& budget, const Seq& a, const Seq& b) {
  if (a.type != b.type && !(a.type <= SeqType::kGroup && b.type <= SeqType::kGroup &&
                            a.type != SeqType::kList && b.type != SeqType::kList))
    return false;
  if (&a == &b) return true;
  if (a.type == SeqType::kIterator || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equals(budget, a.items[i], b.items[i])) return false;
  return true;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    const Value* other = b.find(key);
    if (!other || !equals(budget, value, *other)) return false;
  }
  return true;
}

}  // namespace

bool equals(Budget& budget, const Value& a, const Value& b) {
  if (a.is_str() && b.is_str()) {
    budget.step(a.text().size());
    return a.text() == b.text();
  }
  budget.step();
  if (a.is_numeric() && b.is_numeric()) return KeyEqual()(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kBigInt:
      return a.text() == b.text();
    case Kind::kSeq:
      return equal_items(budget, a.seq(), b.seq());
    case Kind::kDict:
      return equal_dicts(budget, a.dict(), b.dict());
    default:
      return a.identity() == b.identity();
  }
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  need_defined(budget, a);
  need_defined(budget, b);
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
  if (a.is_numeric() && b.is_numeric()) return a.number() < b.number();
  if (a.is_str() && b.is_str()) {
    budget.step(a.text().size());
    return a.text() < b.text();  // the order of UTF-8 bytes is that of code points
  }
  if (a.is_seq() && b.is_seq() && a.seq().type <= SeqType::kGroup && b.seq().type <= SeqType::kGroup) {
    const auto &x = a.seq().items, &y = b.seq().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equals(budget, x[i], y[i])) return less(budget, x[i], y[i]);
    return x.size() < y.size();
  }
  budget.fail("'<' not supported between instances of '" + type_name(a) + "' and '" + type_name(b) + "'");
}

std::vector<Value> iterate(Budget& budget, const Value& v) {
  std::vector<Value> out;
  if (v.is_seq()) {
    const Seq& seq = v.seq();
    budget.step(seq.items.size() * sizeof(Value));
    if (seq.type != SeqType::kIterator) return seq.items;
    out.assign(seq.items.begin() + static_cast<ptrdiff_t>(seq.next), seq.items.end());
    seq.next = seq.items.size();
  } else if (v.is_dict()) {
    budget.step(v.dict().items.size() * sizeof(Value));
    for (const auto& item : v.dict().items) out.push_back(item.first);
  } else if (v.is_str()) {
    const std::string& text = v.text();
    for (size_t at = 0; at < text.size();) {
      const size_t n = char_bytes(text, at);
      out.push_back(Value::string(&budget, text.substr(at, n)));
      at += n;
    }
  } else if (!v.is_undefined()) {
    budget.fail("'" + type_name(v) + "' object is not iterable");
  }
  return out;
}

std::string type_name(const Value& v) {
  static constexpr const char* kSeqNames[] = {"list",      "tuple",     "tuple",       "range",
                                              "generator", "dict_keys", "dict_values", "dict_items"};
  static constexpr const char* kNames[] = {"Undefined",
                                           "NoneType",
                                           "bool",
                                           "int",
                                           "int",
                                           "float",
                                           "str",
                                           "",
                                           "dict",
                                           "Namespace",
                                           "LoopContext",
                                           "Macro",
                                           "builtin_function_or_method",
                                           "function",
                                           "Cycler",
                                           "Joiner"};
  return v.is_seq() ? kSeqNames[static_cast<int>(v.seq().type)] : kNames[static_cast<int>(v.kind())];
}

}  // namespace octavo::jinja
