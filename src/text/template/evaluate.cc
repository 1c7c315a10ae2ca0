#include <algorithm>

#include "text/template/interpreter.h"
#include "text/template/operations.h"
#include "text/template/print.h"

namespace octavo::jinja {

Value Interpreter::eval(const Expr& e) {
  const Level level(*this);
  rt_.budget.position = e.position;
  switch (e.kind) {
    case ExprKind::kConst:
      return e.constant;
    case ExprKind::kName: {
      const Value* found = find_variable(e.name);
      return found ? *found : e.constant;
    }
    case ExprKind::kTuple:
      return rt_.list(eval_all(e.kids), SeqType::kTuple);
    case ExprKind::kList:
      return rt_.list(eval_all(e.kids));
    case ExprKind::kDict:
      return eval_dict(e);
    case ExprKind::kNot:
      return Value::boolean(!truthy(eval(*e.kids[0])));
    case ExprKind::kNegative:
      return negative(rt_, eval(*e.kids[0]));
    case ExprKind::kPositive:
      return binary(rt_, Op::kAdd, Value::integer(0), eval(*e.kids[0]));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = eval(*e.kids[0]);
      return truthy(left) == (e.kind == ExprKind::kOr) ? left : eval(*e.kids[1]);
    }
    case ExprKind::kBinary:
      return eval_binary(e);
    case ExprKind::kConcat:
      return eval_concat(e);
    case ExprKind::kCompare:
      return eval_compare(e);
    case ExprKind::kCond:
      return eval_cond(e);
    case ExprKind::kAttribute: {
      const Value object = eval(*e.kids[0]);
      rt_.budget.position = e.position;
      return get_attribute(rt_, object, e.constant);
    }
    case ExprKind::kItem:
      return eval_item(e);
    case ExprKind::kSlice:
      break;  // only within kItem
    case ExprKind::kCall:
      return eval_call(e);
    case ExprKind::kFilter:
    case ExprKind::kTest:
      return eval_filter(e, eval(*e.kids[0]));
  }
  rt_.fail("misplaced slice");
}

Value Interpreter::eval_binary(const Expr& e) {
  const Value left = eval(*e.kids[0]), right = eval(*e.kids[1]);
  rt_.budget.position = e.position;
  return binary(rt_, e.op, left, right);
}

Value Interpreter::eval_dict(const Expr& e) {
  std::vector<std::pair<Value, Value>> items;
  items.reserve(e.kids.size() / 2);
  for (size_t i = 0; i < e.kids.size(); i += 2) {
    Value key = eval(*e.kids[i]);
    items.emplace_back(std::move(key), eval(*e.kids[i + 1]));
  }
  return Value::dict(rt_.budget, std::move(items));
}

Value Interpreter::eval_concat(const Expr& e) {
  Output out(rt_);
  for (const auto& kid : e.kids) out.append(eval(*kid));
  return rt_.str(out.take());
}

Value Interpreter::eval_compare(const Expr& e) {
  Value left = eval(*e.kids[0]);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = eval(*e.kids[i + 1]);
    rt_.budget.position = e.position;
    if (!compare(rt_, e.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_cond(const Expr& e) {
  if (truthy(eval(*e.kids[0]))) return eval(*e.kids[1]);
  if (e.kids[2]) return eval(*e.kids[2]);
  return rt_.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::eval_item(const Expr& e) {
  const Value object = eval(*e.kids[0]);
  const Expr& index = *e.kids[1];
  if (index.kind != ExprKind::kSlice) {
    const Value at = eval(index);
    rt_.budget.position = e.position;
    return get_item(rt_, object, at);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) bounds[i] = index.kids[i] ? eval(*index.kids[i]) : Value::none();
  rt_.budget.position = e.position;
  return get_slice(rt_, object, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::eval_filter(const Expr& e, const Value& subject) {
  Args args = eval_args(e);
  rt_.budget.position = e.position;
  return apply(rt_, *e.builtin, subject, std::move(args));
}

/// Filters of a set or filter block: the innermost has no subject of its own.
Value Interpreter::eval_filter_chain(const Expr& e, const Value& innermost) {
  return eval_filter(e, e.kids[0] ? eval_filter_chain(*e.kids[0], innermost) : innermost);
}

std::vector<Value> Interpreter::eval_all(const std::vector<ExprPtr>& list, size_t from) {
  std::vector<Value> out;
  out.reserve(list.size());
  for (size_t i = from; i < list.size(); ++i) out.push_back(eval(*list[i]));
  return out;
}

Args Interpreter::eval_args(const Expr& e) {
  Args args;
  args.positional = eval_all(e.kids, 1);
  for (const auto& [name, value] : e.named) args.named.emplace_back(name, eval(*value));
  if (e.spread)
    for (Value& v : iterate(rt_.budget, eval(*e.spread))) args.positional.push_back(std::move(v));
  if (!e.spread_named) return args;
  const Value more = eval(*e.spread_named);
  if (!more.is_dict()) rt_.fail("argument after ** must be a mapping, not " + type_name(more));
  for (const auto& [name, value] : more.dict().items) {
    if (!name.is_str()) rt_.fail("keywords must be strings");
    args.named.emplace_back(name.text(), value);
  }
  return args;
}

Value Interpreter::eval_call(const Expr& e, const Value* caller) {
  const Level level(*this);
  const Value callee = eval(*e.kids[0]);
  Args args = eval_args(e);
  if (caller) args.named.emplace_back("caller", *caller);
  rt_.budget.position = e.position;
  return call(callee, std::move(args));
}

Value Interpreter::call(const Value& callee, Args args) {
  switch (callee.kind()) {
    case Kind::kMacro:
      return call_macro(callee.as<Closure>(), std::move(args));
    case Kind::kMethod:
      return apply(rt_, *callee.as<BoundMethod>().builtin, callee.as<BoundMethod>().object, std::move(args));
    case Kind::kBuiltin:
      return apply(rt_, callee.as<Builtin>(), callee, std::move(args));
    case Kind::kLoop:
      return call_loop(callee.as<Loop>(), args);
    case Kind::kJoiner: {
      auto& joiner = callee.as<Joiner>();
      return std::exchange(joiner.used, true) ? joiner.separator : rt_.str("");
    }
    default:
      need_defined(rt_.budget, callee);
      rt_.fail("'" + type_name(callee) + "' object is not callable");
  }
}

Value Interpreter::call_loop(const Loop& loop, const Args& args) {
  if (!loop.recursive) rt_.fail("the loop must have the 'recursive' marker to be called");
  if (args.positional.size() != 1 || !args.named.empty()) rt_.fail("a loop is called with one iterable");
  const Stmt& s = *loop.recursive;
  const int64_t depth0 = loop.depth0 + 1;
  Output out(rt_);
  run_for(s, args.positional[0], depth0, out);
  return rt_.str(out.take());
}

Value Interpreter::call_macro(const Closure& closure, Args args) {
  const Level level(*this);
  const ScopeGuard scope(*this, closure.scope);
  bind_macro(*closure.macro, args);
  Output out(rt_);
  run_body(closure.macro->body, out);
  return rt_.str(out.take());
}

void Interpreter::bind_macro(const MacroDef& macro, Args& args) {
  const size_t n = macro.parameters.size(), required = n - macro.defaults.size();
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    const auto it =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == name; });
    if (it == args.named.end()) return std::nullopt;
    Value value = std::move(it->second);
    args.named.erase(it);
    return value;
  };
  for (size_t i = 0; i < n; ++i) {
    if (i < args.positional.size()) {
      set_variable(macro.parameters[i], args.positional[i]);
      continue;
    }
    const std::string& name = macro.parameter_names[i];
    std::optional<Value> value = take(name);
    // Defaults see the parameters before them.
    if (!value && i >= required) value = eval(*macro.defaults[i - required]);
    set_variable(macro.parameters[i],
                 value ? *value : rt_.undefined("parameter '" + name + "' was not provided"));
  }
  if (macro.uses_caller) {
    std::optional<Value> caller = take("caller");
    set_variable(kCallerName, caller ? *caller : rt_.undefined("no caller defined"));
  }
  if (macro.uses_kwargs) {
    std::vector<std::pair<Value, Value>> rest;
    for (auto& [name, value] : args.named) rest.emplace_back(rt_.str(name), std::move(value));
    set_variable(kKwargsName, Value::dict(rt_.budget, std::move(rest)));
  } else if (!args.named.empty()) {
    rt_.fail("macro '" + macro.name + "' takes no keyword argument '" + args.named[0].first + "'");
  }
  std::vector<Value> rest(
      args.positional.begin() + static_cast<ptrdiff_t>(std::min(n, args.positional.size())),
      args.positional.end());
  if (macro.uses_varargs)
    set_variable(kVarargsName, rt_.list(std::move(rest), SeqType::kTuple));
  else if (!rest.empty())
    rt_.fail("macro '" + macro.name + "' takes not more than " + std::to_string(n) + " argument(s)");
}

}  // namespace octavo::jinja
