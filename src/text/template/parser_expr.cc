#include <algorithm>
#include <charconv>

#include "text/template/parser.h"

namespace octavo::jinja {

ExprPtr Parser::new_expr(ExprKind kind) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->position = now().position;
  return e;
}

ExprPtr Parser::finish(ExprPtr e) const {
  const auto look = [&](const ExprPtr& kid) {
    if (kid) e->depth = std::max(e->depth, kid->depth + 1);
  };
  for (const auto& kid : e->kids) look(kid);
  for (const auto& kid : e->named) look(kid.second);
  look(e->spread);
  look(e->spread_named);
  if (e->depth > limits_.source_depth) fail("an expression is nested too deep or too long");
  return e;
}

ExprPtr Parser::make_const(Value value) const {
  auto e = new_expr(ExprKind::kConst);
  e->constant = std::move(value);
  return e;
}

ExprPtr Parser::binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right) const {
  auto e = new_expr(kind);
  e->position = left->position;
  e->op = op;
  e->kids.push_back(std::move(left));
  e->kids.push_back(std::move(right));
  return finish(std::move(e));
}

bool Parser::tuple_ends(std::string_view end_name) const {
  return now().is(TokenType::kVariableEnd) || now().is(TokenType::kBlockEnd) || now().is_op(")") ||
         (!end_name.empty() && now().is_name(end_name));
}

/// One expression, or a tuple if there are commas.
ExprPtr Parser::tuple(Tuple mode, std::string_view end_name) {
  auto e = new_expr(ExprKind::kTuple);
  bool is_tuple = false;
  while (!tuple_ends(end_name)) {
    e->kids.push_back(mode == Tuple::kNoCond ? disjunction() : conditional());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !e->kids.empty()) return std::move(e->kids[0]);
  if (!is_tuple && mode != Tuple::kParens) fail("expected an expression, got " + describe(now()));
  return finish(std::move(e));
}

ExprPtr Parser::target_item() {
  const Nest nest(*this);
  if (skip_op("(")) {
    auto inner = target(false);
    expect_op(")");
    return inner;
  }
  auto e = new_expr(ExprKind::kName);
  e->text = expect_name();
  for (const std::string_view reserved : {"true", "false", "none", "True", "False", "None"})
    if (e->text == reserved) fail("cannot assign to '" + e->text + "'");
  e->name = name_id(e->text);
  if (!skip_op(".")) return e;
  auto attribute = new_expr(ExprKind::kAttribute);
  attribute->text = expect_name();
  attribute->kids.push_back(std::move(e));
  return finish(std::move(attribute));
}

/// What set, for and with assign to: a name, an attribute of a namespace, or a tuple of such.
ExprPtr Parser::target(bool names_only, std::string_view end_name) {
  auto e = new_expr(ExprKind::kTuple);
  bool is_tuple = false;
  while (!tuple_ends(end_name) && !now().is_op("=")) {
    e->kids.push_back(target_item());
    if (!skip_op(",")) break;
    is_tuple = true;
  }
  if (e->kids.empty()) fail("expected a name to assign to, got " + describe(now()));
  return is_tuple ? finish(std::move(e)) : std::move(e->kids[0]);
}

ExprPtr Parser::conditional() {
  const Nest nest(*this);
  auto value = disjunction();
  while (skip_name("if")) {
    auto e = new_expr(ExprKind::kCond);
    e->kids.push_back(disjunction());
    e->kids.push_back(std::move(value));
    e->kids.push_back(skip_name("else") ? conditional() : nullptr);
    value = finish(std::move(e));
  }
  return value;
}

ExprPtr Parser::disjunction() {
  auto left = conjunction();
  while (skip_name("or")) left = binary(ExprKind::kOr, Op::kAdd, std::move(left), conjunction());
  return left;
}

ExprPtr Parser::conjunction() {
  auto left = negation();
  while (skip_name("and")) left = binary(ExprKind::kAnd, Op::kAdd, std::move(left), negation());
  return left;
}

ExprPtr Parser::negation() {
  if (!now().is_name("not")) return comparison();
  const Nest nest(*this);
  auto e = new_expr(ExprKind::kNot);
  ++at_;
  e->kids.push_back(negation());
  return finish(std::move(e));
}

bool Parser::comparison_op(Op& op) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt}, {"<=", Op::kLe}, {">", Op::kGt}, {">=", Op::kGe}};
  for (const auto& [text, value] : kOps) {
    if (!skip_op(text)) continue;
    op = value;
    return true;
  }
  op = Op::kIn;
  if (skip_name("in")) return true;
  if (!now().is_name("not") || !peek().is_name("in")) return false;
  at_ += 2;
  op = Op::kNotIn;
  return true;
}

ExprPtr Parser::comparison() {
  auto first = sum();
  Op op;
  if (!comparison_op(op)) return first;
  auto e = new_expr(ExprKind::kCompare);
  e->position = first->position;
  e->kids.push_back(std::move(first));
  do {
    e->ops.push_back(op);
    e->kids.push_back(sum());
  } while (comparison_op(op));
  return finish(std::move(e));
}

ExprPtr Parser::sum() {
  auto left = concat();
  for (;;) {
    if (skip_op("+"))
      left = binary(ExprKind::kBinary, Op::kAdd, std::move(left), concat());
    else if (skip_op("-"))
      left = binary(ExprKind::kBinary, Op::kSub, std::move(left), concat());
    else
      return left;
  }
}

ExprPtr Parser::concat() {
  auto first = product();
  if (!now().is_op("~")) return first;
  auto e = new_expr(ExprKind::kConcat);
  e->kids.push_back(std::move(first));
  while (skip_op("~")) e->kids.push_back(product());
  return finish(std::move(e));
}

ExprPtr Parser::product() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}};
  auto left = power();
  for (;;) {
    const auto op =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& o) { return now().is_op(o.first); });
    if (op == std::end(kOps)) return left;
    ++at_;
    left = binary(ExprKind::kBinary, op->second, std::move(left), power());
  }
}

ExprPtr Parser::power() {
  auto left = unary();
  while (skip_op("**")) left = binary(ExprKind::kBinary, Op::kPow, std::move(left), unary());
  return left;
}

ExprPtr Parser::unary(bool with_filter) {
  ExprPtr e;
  if (now().is_op("-") || now().is_op("+")) {
    const Nest nest(*this);
    e = new_expr(now().is_op("-") ? ExprKind::kNegative : ExprKind::kPositive);
    ++at_;
    e->kids.push_back(unary(false));
    e = finish(std::move(e));
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filter ? filters_and_tests(std::move(e)) : std::move(e);
}

ExprPtr Parser::primary() {
  const Token& token = now();
  if (token.is(TokenType::kName)) return name_or_constant();
  if (token.is(TokenType::kInteger) || token.is(TokenType::kFloat)) return number();
  if (token.is(TokenType::kString)) {
    std::string text;
    while (now().is(TokenType::kString)) text += tokens_[at_++].text;
    return make_const(Value::string(nullptr, std::move(text)));
  }
  if (skip_op("(")) {
    const Nest nest(*this);
    auto e = tuple(Tuple::kParens);
    expect_op(")");
    return e;
  }
  if (token.is_op("[")) return list_literal();
  if (token.is_op("{")) return dict_literal();
  fail("unexpected " + describe(token));
}

ExprPtr Parser::name_or_constant() {
  auto e = new_expr(ExprKind::kName);
  const std::string name = expect_name();
  if (name == "true" || name == "True") return make_const(Value::boolean(true));
  if (name == "false" || name == "False") return make_const(Value::boolean(false));
  if (name == "none" || name == "None") return make_const(Value::none());
  e->text = name;
  e->name = name_id(name);
  e->constant = Value::undefined(nullptr, "'" + name + "' is undefined");
  for (MacroDef* macro : macros_) {
    macro->uses_varargs |= e->name == kVarargsName;
    macro->uses_kwargs |= e->name == kKwargsName;
    macro->uses_caller |= e->name == kCallerName;
  }
  return e;
}

ExprPtr Parser::number() {
  const Token& token = now();
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  Value value;
  if (token.is(TokenType::kFloat)) {
    double d = 0;
    if (std::from_chars(begin, end, d).ec == std::errc::result_out_of_range) fail("a number is out of range");
    value = Value::number(d);
  } else {
    const char mark = token.text.size() > 2 ? token.text[1] : '\0';
    const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base == 10 && token.text[0] == '0' && token.text.find_first_not_of('0') != std::string::npos)
      fail("a number begins with 0");
    int64_t i = 0;
    if (std::from_chars(begin + (base == 10 ? 0 : 2), end, i, base).ec != std::errc())
      fail("a number is out of range");
    value = Value::integer(i);
  }
  auto e = make_const(std::move(value));
  ++at_;
  return e;
}

ExprPtr Parser::list_literal() {
  const Nest nest(*this);
  auto e = new_expr(ExprKind::kList);
  expect_op("[");
  while (!now().is_op("]")) {
    e->kids.push_back(expression());
    if (!skip_op(",")) break;
  }
  expect_op("]");
  return finish(std::move(e));
}

ExprPtr Parser::dict_literal() {
  const Nest nest(*this);
  auto e = new_expr(ExprKind::kDict);
  expect_op("{");
  while (!now().is_op("}")) {
    e->kids.push_back(expression());
    expect_op(":");
    e->kids.push_back(expression());
    if (!skip_op(",")) break;
  }
  expect_op("}");
  return finish(std::move(e));
}

}  // namespace octavo::jinja
