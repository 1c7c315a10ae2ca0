// Runs a syntax tree: statements in interpreter.cc, expressions in evaluate.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/builtin.h"

namespace octavo::jinja {

/// Text under construction, charged to the budget.
class Output {
 public:
  explicit Output(Runtime& rt) : rt_(rt) {}
  ~Output() { rt_.budget.release(charged_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void append(std::string_view text);
  void append(const Value& v);
  std::string take() { return std::move(text_); }

 private:
  void charge();

  Runtime& rt_;
  std::string text_;
  size_t charged_ = 0;
};

/// Variables of a block. Scopes nest as blocks do in the source; a macro refers to the one that it was
/// defined in, which then is kept (with its parents) until the rendering ends. All others are used again.
struct Scope {
  Scope* parent = nullptr;
  bool kept = false;
  std::vector<std::pair<int, Value>> variables;
};

struct Closure {
  const MacroDef* macro;
  Scope* scope;
};

class Interpreter {
 public:
  Interpreter(const Ast& ast, Runtime& rt) : ast_(ast), rt_(rt), globals_(ast.names.size()) {}

  void set_global(std::string_view name, Value value);
  std::string run();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Level;
  class ScopeGuard;

  // Statements.
  Flow run_body(const Body& body, Output& out);
  Flow run_stmt(const Stmt& s, Output& out);
  Flow run_if(const Stmt& s, Output& out);
  void run_for(const Stmt& s, const Value& iterable, int64_t depth0, Output& out);
  std::vector<Value> filtered(const Stmt& s, const std::vector<Value>& items);
  void run_with(const Stmt& s, Output& out);
  void run_call_block(const Stmt& s, Output& out);
  Value render_scoped(const Body& body);
  void assign(const Expr& target, Value value);
  void unpack(const Expr& target, const Value& value);
  Value new_closure(const MacroDef& macro);

  // Scopes.
  Scope* new_scope(Scope* parent);
  void free_scope(Scope* scope);
  void set_variable(int name, Value value);
  const Value* find_variable(int name) const;

  // Expressions.
  Value eval(const Expr& e);
  Value eval_binary(const Expr& e);
  Value eval_dict(const Expr& e);
  Value eval_concat(const Expr& e);
  Value eval_compare(const Expr& e);
  Value eval_cond(const Expr& e);
  Value eval_item(const Expr& e);
  Value eval_filter(const Expr& e, const Value& subject);
  Value eval_filter_chain(const Expr& e, const Value& innermost);
  Value eval_call(const Expr& e, const Value* caller = nullptr);
  Args eval_args(const Expr& e);
  std::vector<Value> eval_all(const std::vector<ExprPtr>& list, size_t from = 0);
  Value call(const Value& callee, Args args);
  Value call_macro(const Closure& closure, Args args);
  void bind_macro(const MacroDef& macro, Args& args);
  Value call_loop(const Loop& loop, const Args& args);

  const Ast& ast_;
  Runtime& rt_;
  std::vector<Value> globals_;  // by name; the context and the global functions
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_;
  std::vector<std::unique_ptr<Closure>> closures_;
  Scope* scope_ = nullptr;
  int depth_ = 0;
};

class Interpreter::Level {
 public:
  explicit Level(Interpreter& in) : in_(in) {
    if (++in_.depth_ > in_.rt_.budget.limits().depth) in_.rt_.fail("the template recurses too deep");
    in_.rt_.budget.step();
  }
  ~Level() { --in_.depth_; }
  Level(const Level&) = delete;

 private:
  Interpreter& in_;
};

/// Makes a scope the current one, for as long as the guard lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& in, Scope* parent) : in_(in), before_(in.scope_) {
    in_.scope_ = in.new_scope(parent);
  }
  explicit ScopeGuard(Interpreter& in) : ScopeGuard(in, in.scope_) {}
  ~ScopeGuard() {
    in_.free_scope(in_.scope_);
    in_.scope_ = before_;
  }
  ScopeGuard(const ScopeGuard&) = delete;

 private:
  Interpreter& in_;
  Scope* const before_;
};

}  // namespace octavo::jinja
