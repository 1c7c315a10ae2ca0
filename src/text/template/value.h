// Values of a template. Only plain data: no host object is reachable from one.
//
// Strings, lists and dicts are immutable once made (as in jinja2's ImmutableSandboxedEnvironment, where
// append and the like are refused), so they are shared by reference count and cannot form cycles. What is
// mutable (namespaces, macros with their scopes) belongs to the interpreter of one rendering and is referred
// to without ownership. A list knows how deep it nests; the limit on that bounds every recursion over values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/template/budget.h"

namespace octavo::jinja {

enum class Kind : uint8_t {
  kUndefined,  // Str: the message of the error that its use raises
  kNone,
  kBool,
  kInt,
  kBigInt,  // Str: digits of an integer beyond int64 (from JSON only); printed, not computed with
  kFloat,
  kStr,
  kSeq,
  kDict,
  kNamespace,
  kLoop,
  kMacro,
  kMethod,   // bound to its object
  kBuiltin,  // a global function
  kCycler,
  kJoiner,
};

enum class SeqType : uint8_t { kList, kTuple, kGroup, kRange, kIterator, kKeys, kValues, kItems };

struct Str;
struct Seq;
struct Dict;

class Value {
 public:
  Value() = default;
  static Value none() { return Value(Kind::kNone, nullptr); }
  static Value boolean(bool b) {
    Value v(Kind::kBool, nullptr);
    v.int_ = b;
    return v;
  }
  static Value integer(int64_t i) {
    Value v(Kind::kInt, nullptr);
    v.int_ = i;
    return v;
  }
  static Value number(double d) {
    Value v(Kind::kFloat, nullptr);
    v.float_ = d;
    return v;
  }
  /// `budget` is null for constants of the compiled template.
  static Value string(Budget* budget, std::string text, bool markup = false);
  static Value undefined(Budget* budget, std::string message);
  static Value big_integer(Budget* budget, std::string digits);
  static Value seq(Budget& budget, std::vector<Value> items, SeqType type = SeqType::kList);
  static Value dict(Budget& budget, std::vector<std::pair<Value, Value>> items);
  static Value object(Kind kind, std::shared_ptr<const void> object) {
    return Value(kind, std::move(object));
  }
  static Value unowned(Kind kind, const void* object) {
    return Value(kind, std::shared_ptr<const void>(std::shared_ptr<const void>(), object));
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_str() const { return kind_ == Kind::kStr; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_seq() const { return kind_ == Kind::kSeq; }
  bool is_seq(SeqType type) const;
  /// Python's int: bool included.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_numeric() const { return is_integral() || kind_ == Kind::kFloat; }
  bool is_callable() const { return kind_ >= Kind::kMacro || is_undefined(); }

  bool boolean() const { return int_ != 0; }
  int64_t integer() const { return int_; }
  double number() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const Str& str() const { return *static_cast<const Str*>(object_.get()); }
  const std::string& text() const;
  const Seq& seq() const { return *static_cast<const Seq*>(object_.get()); }
  const Dict& dict() const { return *static_cast<const Dict*>(object_.get()); }
  template <class T>
  T& as() const {
    return *const_cast<T*>(static_cast<const T*>(object_.get()));
  }
  const void* identity() const { return object_.get(); }
  int depth() const;

 private:
  Value(Kind kind, std::shared_ptr<const void> object) : object_(std::move(object)), kind_(kind) {}

  std::shared_ptr<const void> object_;
  union {
    int64_t int_ = 0;
    double float_;
  };
  Kind kind_ = Kind::kUndefined;
};

/// UTF-8; the template sees code points. `length` counts those, so text.size() == length means ASCII.
struct Str {
  std::string text;
  int64_t length;
  bool markup;  // result of safe or escape: `+` escapes what is joined to it
  Charge charge;
  bool ascii() const { return static_cast<size_t>(length) == text.size(); }
};

struct Seq {
  SeqType type;
  int depth;
  std::vector<Value> items;
  mutable size_t next;  // iterators (results of map, select, reverse, ...) are consumed by use
  Charge charge;
};

/// Equality and hash of dict keys, which are scalars (Python: 1 == 1.0 == True).
struct KeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  size_t operator()(const Value& v) const;
};
struct KeyEqual {
  using is_transparent = void;
  bool operator()(const Value& a, const Value& b) const;
  bool operator()(const Value& a, std::string_view b) const { return a.is_str() && a.text() == b; }
  bool operator()(std::string_view a, const Value& b) const { return b.is_str() && b.text() == a; }
};
bool is_key(const Value& v);

struct Dict {
  int depth;
  std::vector<std::pair<Value, Value>> items;                    // insertion order
  std::unordered_map<Value, uint32_t, KeyHash, KeyEqual> index;  // empty for small ones
  Charge charge;
  const Value* find(const Value& key) const { return find_as(key); }
  const Value* find(std::string_view key) const { return find_as(key); }

 private:
  template <class K>
  const Value* find_as(const K& key) const;
};

struct Cycler {
  std::vector<Value> items;
  size_t next = 0;
};
struct Joiner {
  Value separator;
  bool used = false;
};

inline const std::string& Value::text() const { return str().text; }
inline bool Value::is_seq(SeqType type) const { return is_seq() && seq().type == type; }

Value from_json(Budget& budget, const nlohmann::ordered_json& json, int depth = 0);

bool truthy(const Value& v);
bool equals(Budget& budget, const Value& a, const Value& b);
/// Python's `<`; fails where the types have no order.
bool less(Budget& budget, const Value& a, const Value& b);

/// The elements that a for loop over `v` sees; fails if it is not iterable. Consumes iterators.
std::vector<Value> iterate(Budget& budget, const Value& v);
/// Python's type name, for messages.
std::string type_name(const Value& v);
/// Fails with the message of an undefined value if `v` is one.
inline void need_defined(Budget& budget, const Value& v) {
  if (v.is_undefined()) budget.fail(v.text());
}

}  // namespace octavo::jinja
