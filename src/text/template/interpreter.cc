#include "text/template/interpreter.h"

#include <algorithm>

#include "text/template/operations.h"
#include "text/template/print.h"

namespace octavo::jinja {

void Output::charge() {
  if (text_.size() <= charged_) return;
  rt_.budget.allocate(text_.size() - charged_);
  charged_ = text_.size();
}
void Output::append(std::string_view text) {
  rt_.budget.step(text.size());
  rt_.budget.check_text(text_.size() + text.size());
  text_ += text;
  charge();
}
void Output::append(const Value& v) {
  append_text(rt_, text_, v);
  charge();
}

void Interpreter::set_global(std::string_view name, Value value) {
  const auto it = std::find(ast_.names.begin(), ast_.names.end(), name);
  if (it != ast_.names.end()) globals_[static_cast<size_t>(it - ast_.names.begin())] = std::move(value);
}

std::string Interpreter::run() {
  for (size_t i = 0; i < globals_.size(); ++i) {
    const Builtin* global = globals_[i].is_undefined() ? find_global(ast_.names[i]) : nullptr;
    if (global) globals_[i] = Value::unowned(Kind::kBuiltin, global);
  }
  Output out(rt_);
  {
    const ScopeGuard scope(*this, nullptr);
    run_body(ast_.body, out);
  }
  return out.take();
}

Scope* Interpreter::new_scope(Scope* parent) {
  if (free_.empty()) {
    rt_.budget.allocate(sizeof(Scope));
    scopes_.push_back(std::make_unique<Scope>());
    free_.push_back(scopes_.back().get());
  }
  Scope* scope = free_.back();
  free_.pop_back();
  scope->parent = parent;
  return scope;
}

void Interpreter::free_scope(Scope* scope) {
  if (scope->kept) return;
  scope->variables.clear();
  free_.push_back(scope);
}

void Interpreter::set_variable(int name, Value value) {
  for (auto& [id, old] : scope_->variables) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  scope_->variables.emplace_back(name, std::move(value));
}

const Value* Interpreter::find_variable(int name) const {
  for (const Scope* scope = scope_; scope; scope = scope->parent)
    for (const auto& [id, value] : scope->variables)
      if (id == name) return &value;
  const Value& global = globals_[static_cast<size_t>(name)];
  return global.is_undefined() ? nullptr : &global;
}

Interpreter::Flow Interpreter::run_body(const Body& body, Output& out) {
  const Level level(*this);
  for (const auto& s : body)
    if (const Flow flow = run_stmt(*s, out); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_stmt(const Stmt& s, Output& out) {
  rt_.budget.position = s.position;
  rt_.budget.step();
  switch (s.kind) {
    case StmtKind::kData:
      out.append(s.text);
      break;
    case StmtKind::kOutput:
      for (const auto& e : s.exprs) out.append(eval(*e));
      break;
    case StmtKind::kIf:
      return run_if(s, out);
    case StmtKind::kFor:
      run_for(s, eval(*s.exprs[1]), 0, out);
      break;
    case StmtKind::kSet:
      assign(*s.exprs[0], eval(*s.exprs[1]));
      break;
    case StmtKind::kSetBlock: {
      const Value text = render_scoped(s.bodies[0]);
      assign(*s.exprs[0], s.exprs[1] ? eval_filter_chain(*s.exprs[1], text) : text);
      break;
    }
    case StmtKind::kWith:
      run_with(s, out);
      break;
    case StmtKind::kFilter:
      out.append(eval_filter_chain(*s.exprs[0], render_scoped(s.bodies[0])));
      break;
    case StmtKind::kScope:
    case StmtKind::kInline:
      out.append(render_scoped(s.bodies[0]));
      break;
    case StmtKind::kMacro:
      set_variable(s.macro->id, new_closure(*s.macro));
      break;
    case StmtKind::kCall:
      run_call_block(s, out);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Stmt& s, Output& out) {
  for (size_t i = 0; i < s.exprs.size(); ++i)
    if (truthy(eval(*s.exprs[i]))) return run_body(s.bodies[i], out);
  return s.bodies.size() > s.exprs.size() ? run_body(s.bodies.back(), out) : Flow::kNext;
}

std::vector<Value> Interpreter::filtered(const Stmt& s, const std::vector<Value>& items) {
  std::vector<Value> out;
  for (const Value& item : items) {
    const ScopeGuard scope(*this);
    assign(*s.exprs[0], item);
    if (truthy(eval(*s.exprs[2]))) out.push_back(item);
  }
  return out;
}

void Interpreter::run_for(const Stmt& s, const Value& iterable, int64_t depth0, Output& out) {
  // A list is walked in place; all else, and what a filter leaves, becomes one first.
  const bool in_place = iterable.is_seq() && iterable.seq().type != SeqType::kIterator;
  Value keep = in_place ? iterable : rt_.list(iterate(rt_.budget, iterable));
  if (s.exprs[2]) keep = rt_.list(filtered(s, keep.seq().items));

  const auto loop = std::make_shared<Loop>();
  loop->keep = keep;
  loop->items = &keep.seq().items;
  loop->depth0 = depth0;
  loop->recursive = s.recursive ? &s : nullptr;
  struct Unlink {  // what loop.changed saw could be the loop itself
    Loop& loop;
    ~Unlink() { loop.changed.clear(); }
  } const unlink{*loop};
  const Value self = Value::object(Kind::kLoop, loop);

  bool finished = false;
  for (const Value& item : *loop->items) {
    const ScopeGuard scope(*this);
    set_variable(kLoopName, self);
    assign(*s.exprs[0], item);
    const Flow flow = run_body(s.bodies[0], out);
    if (flow == Flow::kBreak) break;
    finished |= flow == Flow::kNext;
    ++loop->index0;
  }
  // jinja2's else: no iteration came to its end (not only: there was none).
  if (finished || s.bodies[1].empty()) return;
  const ScopeGuard scope(*this);
  run_body(s.bodies[1], out);
}

void Interpreter::run_with(const Stmt& s, Output& out) {
  std::vector<Value> values;
  for (size_t i = 1; i < s.exprs.size(); i += 2) values.push_back(eval(*s.exprs[i]));
  const ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(*s.exprs[2 * i], std::move(values[i]));
  run_body(s.bodies[0], out);
}

void Interpreter::run_call_block(const Stmt& s, Output& out) {
  const Value caller = new_closure(*s.macro);
  out.append(eval_call(*s.exprs[0], &caller));
}

Value Interpreter::render_scoped(const Body& body) {
  const ScopeGuard scope(*this);
  Output out(rt_);
  run_body(body, out);
  return rt_.str(out.take());
}

void Interpreter::assign(const Expr& target, Value value) {
  rt_.budget.step();
  if (target.kind == ExprKind::kName) return set_variable(target.name, std::move(value));
  if (target.kind == ExprKind::kTuple) return unpack(target, value);
  rt_.budget.position = target.position;
  const Value* object = find_variable(target.kids[0]->name);
  set_attribute(rt_, object ? *object : Value::none(), target.text, std::move(value));
}

void Interpreter::unpack(const Expr& target, const Value& value) {
  need_defined(rt_.budget, value);
  const auto items = iterate(rt_.budget, value);
  const size_t wanted = target.kids.size();
  if (items.size() != wanted)
    rt_.fail((items.size() < wanted ? "not enough values to unpack (expected "
                                    : "too many values to unpack (expected ") +
             std::to_string(wanted) + ")");
  for (size_t i = 0; i < wanted; ++i) assign(*target.kids[i], items[i]);
}

Value Interpreter::new_closure(const MacroDef& macro) {
  for (Scope* scope = scope_; scope && !scope->kept; scope = scope->parent) scope->kept = true;
  rt_.budget.allocate(sizeof(Closure) + 2 * sizeof(Scope));
  closures_.push_back(std::make_unique<Closure>(Closure{&macro, scope_}));
  return Value::unowned(Kind::kMacro, closures_.back().get());
}

}  // namespace octavo::jinja
