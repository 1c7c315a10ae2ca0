// Filters, tests, methods and global functions: rows of tables, bound to their arguments by one function.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/value.h"

namespace octavo::jinja {

struct Builtin;

struct Namespace {
  std::vector<std::pair<std::string, Value>> items;
  Value* find(std::string_view name);
};

/// What one rendering shares: the budget, the clock, and what values refer to without owning it.
struct Runtime {
  Runtime(const TemplateLimits& limits, std::optional<int64_t> now_unix) : budget(limits), now(now_unix) {}

  Value str(std::string text, bool markup = false) { return Value::string(&budget, std::move(text), markup); }
  Value list(std::vector<Value> items, SeqType type = SeqType::kList) {
    return Value::seq(budget, std::move(items), type);
  }
  Value undefined(std::string message) { return Value::undefined(&budget, std::move(message)); }
  [[noreturn]] void fail(const std::string& message) const { budget.fail(message); }

  Budget budget;
  std::optional<int64_t> now;  // seconds since 1970, for strftime_now; the wall clock if absent
  std::vector<std::unique_ptr<Namespace>> namespaces;  // may hold themselves: a count would never fall to 0
};

/// The variable `loop`.
struct Loop {
  Value keep;  // owns *items
  const std::vector<Value>* items = nullptr;
  int64_t index0 = 0;
  int64_t depth0 = 0;
  const struct Stmt* recursive = nullptr;  // set if the loop may be called
  std::vector<Value> changed;              // last arguments of loop.changed
};

class Args {
 public:
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // After binding, by place in the parameter list:
  bool has(size_t i) const { return i < given_.size() && given_[i]; }
  /// Given and not None, which Python's defaults mostly mean.
  bool set(size_t i) const { return has(i) && !positional[i].is_none(); }
  const Value& operator[](size_t i) const { return positional[i]; }
  int64_t integer(Runtime& rt, size_t i, int64_t otherwise) const;
  bool flag(size_t i, bool otherwise) const { return has(i) ? truthy(positional[i]) : otherwise; }
  const std::string& text(Runtime& rt, size_t i) const;  // fails unless a str

 private:
  friend void bind(Runtime& rt, const Builtin& builtin, Args& args);
  std::vector<bool> given_;
};

struct Builtin {
  std::string_view name;
  // Names, '=' after optional ones, '/' before those that take no keyword: "/old /new count="; "*" takes all
  // as it comes.
  std::string_view params;
  Value (*run)(Runtime&, const Value& subject, Args& args);
};

/// Checks the arguments against the parameters and runs.
Value apply(Runtime& rt, const Builtin& builtin, const Value& subject, Args args);

// Null if there is none.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_method(const Value& object, std::string_view name);
const Builtin* find_global(std::string_view name);

/// A method that would change its object (list.append and the like): jinja2's sandbox refuses them.
bool is_mutating_method(const Value& object, std::string_view name);

struct BoundMethod {
  Value object;
  const Builtin* builtin;
};
/// A name assigned on a namespace; none may begin with '_'.
void set_attribute(Runtime& rt, const Value& object, const std::string& name, Value value);
Value loop_attribute(Runtime& rt, const Loop& loop, std::string_view name);

// Tables of the files that make up find_filter.
using Table = std::pair<const Builtin*, size_t>;
Table string_filters();
Table sequence_filters();
Table value_filters();
Table object_methods(Kind kind);  // of loop and cycler

}  // namespace octavo::jinja
