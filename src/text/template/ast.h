// Syntax tree of a template. Two node types with children in a fixed order, so that passes over the tree (the
// search for how a template reads message content) need no visitor.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template/budget.h"
#include "text/template/value.h"

namespace octavo::jinja {

struct Builtin;
struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class ExprKind : uint8_t {
  kConst,  // constant
  kName,   // name
  kTuple,  // kids: items
  kList,   // kids: items
  kDict,   // kids: key, value, key, value, ...
  kNot,    // kids: operand
  kNegative,
  kPositive,
  kAnd,
  kOr,         // kids: left, right
  kBinary,     // op; kids: left, right
  kConcat,     // kids: operands of ~
  kCompare,    // ops; kids: first, then one for each op
  kCond,       // kids: test, then, else (null if absent)
  kAttribute,  // kids: object; text: the name
  kItem,       // kids: object, index (may be a kSlice)
  kSlice,      // kids: start, stop, step (null if absent)
  kCall,       // kids: callee, positional arguments; named, spread
  kFilter,     // builtin; kids: subject (null as head of a filter block), positional arguments; named, spread
  kTest,       // the same
};

enum class Op : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct Expr {
  ExprKind kind;
  Op op = Op::kAdd;
  Position position;
  int depth = 1;  // of the tree under it; limited, for it bounds the recursion of all that walk the tree
  int name = -1;  // number of `text` in Ast::names
  std::string text;
  Value constant;
  const Builtin* builtin = nullptr;
  std::vector<Op> ops;
  std::vector<ExprPtr> kids;
  std::vector<std::pair<std::string, ExprPtr>> named;  // keyword arguments
  ExprPtr spread, spread_named;                        // *args, **kwargs
};

enum class StmtKind : uint8_t {
  kData,      // text
  kOutput,    // exprs: one; print may have more
  kIf,        // exprs[i] guards bodies[i]; one more body is the else branch
  kFor,       // exprs: target, iterable, filter (null if none); bodies: loop, else; recursive
  kSet,       // exprs: target, value
  kSetBlock,  // exprs: target, filter (null if none); bodies: one
  kWith,      // exprs: target, value, ...; bodies: one
  kFilter,    // exprs: filter; bodies: one
  kScope,     // bodies: one (block; a scope of its own)
  kInline,    // bodies: one (generation, autoescape false: a scope of its own too)
  kMacro,     // macro
  kCall,      // exprs: the call; macro: the caller
  kBreak,
  kContinue,
};

struct MacroDef {
  std::string name;
  int id = -1;                  // of the name
  std::vector<int> parameters;  // names
  std::vector<std::string> parameter_names;
  std::vector<ExprPtr> defaults;  // for the last parameters
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
  Body body;
};

struct Stmt {
  StmtKind kind;
  Position position;
  bool recursive = false;
  std::string text;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  std::unique_ptr<MacroDef> macro;
};

/// Names that the interpreter sets by itself; their numbers are these in every template.
enum WellKnown : int { kLoopName, kCallerName, kVarargsName, kKwargsName, kWellKnownNames };

struct Ast {
  Body body;
  std::vector<std::string> names;  // of variables, numbered
};

}  // namespace octavo::jinja
