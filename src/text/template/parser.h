// Grammar of jinja2 with the extensions of transformers: loop controls and generation blocks.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace octavo::jinja {

/// Throws TemplateError on anything that is not in the language, unknown filters and tests included.
Ast parse(std::string_view source, const TemplateLimits& limits);

/// The parser's state; statements in parser.cc, expressions in parser_expr.cc and parser_postfix.cc.
class Parser {
 public:
  Parser(std::vector<Token> tokens, const TemplateLimits& limits);
  Ast run();

 private:
  enum class Tuple { kPlain, kNoCond, kParens };
  using EndNames = std::vector<std::string_view>;

  // Tokens.
  const Token& now() const { return tokens_[at_]; }
  const Token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect(TokenType type, std::string_view what);
  std::string expect_name();
  [[noreturn]] void fail(const std::string& message) const;
  static std::string describe(const Token& token);
  int name_id(const std::string& name);

  // Statements.
  Body statements(const EndNames& ends);
  Body block_body(const EndNames& ends);  // from the end of the opening tag; leaves the closing name
  void end_block(std::string_view name);  // the closing name and the end of its tag
  std::unique_ptr<Stmt> statement();
  std::unique_ptr<Stmt> new_stmt(StmtKind kind) const;
  void parse_if(Stmt& s);
  void parse_for(Stmt& s);
  void parse_set(Stmt& s);
  void parse_with(Stmt& s);
  void parse_macro(Stmt& s);
  void parse_call_block(Stmt& s);
  void parse_filter_block(Stmt& s);
  void parse_simple_block(Stmt& s, std::string_view end);
  void parse_signature(MacroDef& macro);
  void parse_macro_body(MacroDef& macro, std::string_view end);

  // Expressions.
  ExprPtr new_expr(ExprKind kind) const;
  ExprPtr finish(ExprPtr e) const;  // sets and checks the depth
  ExprPtr make_const(Value value) const;
  ExprPtr binary(ExprKind kind, Op op, ExprPtr left, ExprPtr right) const;
  ExprPtr expression() { return conditional(); }
  ExprPtr tuple(Tuple mode, std::string_view end_name = {});
  bool tuple_ends(std::string_view end_name) const;
  ExprPtr target(bool names_only, std::string_view end_name = {});
  ExprPtr target_item();
  ExprPtr conditional();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  bool comparison_op(Op& op);
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter = true);
  ExprPtr primary();
  ExprPtr name_or_constant();
  ExprPtr number();
  ExprPtr list_literal();
  ExprPtr dict_literal();
  ExprPtr postfix(ExprPtr e);
  ExprPtr filters_and_tests(ExprPtr e);
  ExprPtr dotted(ExprPtr e);
  ExprPtr subscript(ExprPtr e);
  ExprPtr subscript_item();
  ExprPtr call(ExprPtr callee);
  ExprPtr filter(ExprPtr subject);
  ExprPtr filter_chain(ExprPtr subject);
  ExprPtr test(ExprPtr subject);
  void arguments(Expr& call);
  void argument(Expr& call);

  struct Nest;  // counts open brackets and blocks

  const std::vector<Token> tokens_;
  const TemplateLimits& limits_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;
  std::vector<MacroDef*> macros_;  // that are being parsed
  std::vector<std::string> names_;
  std::unordered_map<std::string, int> ids_;
};

struct Parser::Nest {
  explicit Nest(Parser& p) : parser(p) {
    if (++parser.nesting_ > parser.limits_.source_depth) parser.fail("nested too deep");
  }
  ~Nest() { --parser.nesting_; }
  Nest(const Nest&) = delete;
  Parser& parser;
};

}  // namespace octavo::jinja
