// What follows a primary expression: attributes, subscripts, calls, filters and tests.
#include "text/template/builtin.h"
#include "text/template/parser.h"

namespace octavo::jinja {

ExprPtr Parser::postfix(ExprPtr e) {
  for (;;) {
    if (now().is_op("."))
      e = dotted(std::move(e));
    else if (now().is_op("["))
      e = subscript(std::move(e));
    else if (now().is_op("("))
      e = call(std::move(e));
    else
      return e;
  }
}

ExprPtr Parser::dotted(ExprPtr object) {
  ++at_;
  auto e = new_expr(ExprKind::kAttribute);
  e->kids.push_back(std::move(object));
  if (now().is(TokenType::kInteger)) {
    e->kind = ExprKind::kItem;
    e->kids.push_back(number());
  } else {
    e->text = expect_name();
    e->constant = Value::string(nullptr, e->text);
  }
  return finish(std::move(e));
}

ExprPtr Parser::subscript(ExprPtr object) {
  const Nest nest(*this);
  auto e = new_expr(ExprKind::kItem);
  e->kids.push_back(std::move(object));
  expect_op("[");
  auto index = subscript_item();
  if (now().is_op(",")) fail("a subscript takes one index");
  expect_op("]");
  e->kids.push_back(std::move(index));
  return finish(std::move(e));
}

ExprPtr Parser::subscript_item() {
  auto slice = new_expr(ExprKind::kSlice);
  slice->kids.resize(3);
  const auto part_ends = [&] { return now().is_op(":") || now().is_op("]") || now().is_op(","); };
  if (!now().is_op(":")) {
    slice->kids[0] = expression();
    if (!now().is_op(":")) return std::move(slice->kids[0]);
  }
  for (int i = 1; i < 3 && skip_op(":"); ++i)
    if (!part_ends()) slice->kids[i] = expression();
  return finish(std::move(slice));
}

ExprPtr Parser::call(ExprPtr callee) {
  auto e = new_expr(ExprKind::kCall);
  e->position = callee->position;
  e->kids.push_back(std::move(callee));
  arguments(*e);
  return finish(std::move(e));
}

void Parser::arguments(Expr& call) {
  const Nest nest(*this);
  expect_op("(");
  while (!now().is_op(")")) {
    argument(call);
    if (!skip_op(",")) break;
  }
  expect_op(")");
}

void Parser::argument(Expr& call) {
  if (skip_op("*")) {
    if (call.spread || call.spread_named) fail("misplaced '*'");
    call.spread = expression();
  } else if (skip_op("**")) {
    if (call.spread_named) fail("misplaced '**'");
    call.spread_named = expression();
  } else if (now().is(TokenType::kName) && peek().is_op("=")) {
    if (call.spread_named) fail("a named argument follows '**'");
    std::string name = expect_name();
    ++at_;
    for (const auto& other : call.named)
      if (other.first == name) fail("argument '" + name + "' is given twice");
    call.named.emplace_back(std::move(name), expression());
  } else {
    if (call.spread || call.spread_named || !call.named.empty())
      fail("a positional argument follows a named one");
    call.kids.push_back(expression());
  }
}

ExprPtr Parser::filters_and_tests(ExprPtr e) {
  for (;;) {
    if (now().is_op("|"))
      e = filter_chain(std::move(e));
    else if (now().is_name("is"))
      e = test(std::move(e));
    else if (now().is_op("("))
      e = call(std::move(e));
    else
      return e;
  }
}

ExprPtr Parser::filter_chain(ExprPtr subject) {
  while (skip_op("|")) subject = filter(std::move(subject));
  return subject;
}

ExprPtr Parser::filter(ExprPtr subject) {
  auto e = new_expr(ExprKind::kFilter);
  const Token& token = now();
  e->text = expect_name();
  while (skip_op(".")) e->text += "." + expect_name();
  e->builtin = find_filter(e->text);
  if (!e->builtin)
    throw TemplateError("no filter named '" + e->text + "'", token.position.line, token.position.column);
  e->kids.push_back(std::move(subject));
  if (now().is_op("(")) arguments(*e);
  return finish(std::move(e));
}

ExprPtr Parser::test(ExprPtr subject) {
  ++at_;
  const bool negated = skip_name("not");
  auto e = new_expr(ExprKind::kTest);
  const Token& token = now();
  e->text = expect_name();
  while (skip_op(".")) e->text += "." + expect_name();
  e->builtin = find_test(e->text);
  if (!e->builtin)
    throw TemplateError("no test named '" + e->text + "'", token.position.line, token.position.column);
  e->kids.push_back(std::move(subject));
  const Token& next = now();
  const bool ends = next.is_name("else") || next.is_name("or") || next.is_name("and");
  if (next.is_op("(")) {
    arguments(*e);
  } else if (!ends &&
             (next.is(TokenType::kName) || next.is(TokenType::kString) || next.is(TokenType::kInteger) ||
              next.is(TokenType::kFloat) || next.is_op("[") || next.is_op("{"))) {
    if (next.is_name("is")) fail("tests cannot be chained with is");
    e->kids.push_back(postfix(primary()));
  }
  if (!negated) return finish(std::move(e));
  auto inverse = new_expr(ExprKind::kNot);
  inverse->kids.push_back(finish(std::move(e)));
  return finish(std::move(inverse));
}

}  // namespace octavo::jinja
