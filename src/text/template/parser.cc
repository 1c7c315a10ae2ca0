#include "text/template/parser.h"

#include <algorithm>

namespace octavo::jinja {

Ast parse(std::string_view source, const TemplateLimits& limits) {
  return Parser(tokenize(source, limits), limits).run();
}

Parser::Parser(std::vector<Token> tokens, const TemplateLimits& limits)
    : tokens_(std::move(tokens)), limits_(limits) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) name_id(name);
}

Ast Parser::run() {
  Body body = statements({});
  return {std::move(body), std::move(names_)};
}

int Parser::name_id(const std::string& name) {
  const auto [it, fresh] = ids_.emplace(name, static_cast<int>(names_.size()));
  if (fresh) names_.push_back(name);
  return it->second;
}

void Parser::fail(const std::string& message) const {
  throw TemplateError(message, now().position.line, now().position.column);
}

std::string Parser::describe(const Token& token) {
  switch (token.type) {
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kBlockEnd:
    case TokenType::kVariableEnd:
      return "the end of the tag";
    case TokenType::kString:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

bool Parser::skip_op(std::string_view op) {
  if (!now().is_op(op)) return false;
  ++at_;
  return true;
}
bool Parser::skip_name(std::string_view name) {
  if (!now().is_name(name)) return false;
  ++at_;
  return true;
}
void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail("expected '" + std::string(op) + "', got " + describe(now()));
}
void Parser::expect(TokenType type, std::string_view what) {
  if (!now().is(type)) fail("expected " + std::string(what) + ", got " + describe(now()));
  ++at_;
}
std::string Parser::expect_name() {
  if (!now().is(TokenType::kName)) fail("expected a name, got " + describe(now()));
  return tokens_[at_++].text;
}

std::unique_ptr<Stmt> Parser::new_stmt(StmtKind kind) const {
  auto s = std::make_unique<Stmt>();
  s->kind = kind;
  s->position = now().position;
  return s;
}

/// Up to a tag whose name is in `ends`, which is left as the current token; up to the end of the source if
/// none.
Body Parser::statements(const EndNames& ends) {
  const Nest nest(*this);
  Body body;
  for (;;) {
    switch (now().type) {
      case TokenType::kData:
        body.push_back(new_stmt(StmtKind::kData));
        body.back()->text = tokens_[at_++].text;
        break;
      case TokenType::kVariableBegin:
        ++at_;
        body.push_back(new_stmt(StmtKind::kOutput));
        body.back()->exprs.push_back(tuple(Tuple::kPlain));
        expect(TokenType::kVariableEnd, "the end of the tag");
        break;
      case TokenType::kBlockBegin:
        ++at_;
        if (now().is(TokenType::kName) && std::find(ends.begin(), ends.end(), now().text) != ends.end())
          return body;
        body.push_back(statement());
        break;
      default:
        if (!ends.empty()) fail("expected '" + std::string(ends.back()) + "', got " + describe(now()));
        return body;
    }
  }
}

Body Parser::block_body(const EndNames& ends) {
  skip_op(":");
  expect(TokenType::kBlockEnd, "the end of the tag");
  return statements(ends);
}

void Parser::end_block(std::string_view name) {
  if (!skip_name(name)) fail("expected '" + std::string(name) + "', got " + describe(now()));
}

std::unique_ptr<Stmt> Parser::statement() {
  struct Row {
    std::string_view name;
    StmtKind kind;
    void (Parser::*parse)(Stmt&);
  };
  static constexpr Row kRows[] = {
      {"if", StmtKind::kIf, &Parser::parse_if},
      {"for", StmtKind::kFor, &Parser::parse_for},
      {"set", StmtKind::kSet, &Parser::parse_set},
      {"with", StmtKind::kWith, &Parser::parse_with},
      {"macro", StmtKind::kMacro, &Parser::parse_macro},
      {"call", StmtKind::kCall, &Parser::parse_call_block},
      {"filter", StmtKind::kFilter, &Parser::parse_filter_block},
      {"generation", StmtKind::kInline, nullptr},
      {"block", StmtKind::kScope, nullptr},
      {"autoescape", StmtKind::kInline, nullptr},
      {"break", StmtKind::kBreak, nullptr},
      {"continue", StmtKind::kContinue, nullptr},
      {"print", StmtKind::kOutput, nullptr},
  };
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return now().is_name(r.name); });
  if (row == std::end(kRows)) fail("unknown or misplaced tag " + describe(now()));
  auto s = new_stmt(row->kind);
  ++at_;
  if (row->parse) {
    (this->*row->parse)(*s);
  } else if (row->kind == StmtKind::kOutput) {
    do s->exprs.push_back(expression());
    while (skip_op(","));
  } else if (row->name == "block") {
    s->text = expect_name();
    skip_name("scoped");
    parse_simple_block(*s, "endblock");
    if (now().is_name(s->text)) ++at_;
  } else if (row->name == "autoescape") {
    if (!skip_name("false") && !skip_name("False")) fail("autoescape is not supported");
    parse_simple_block(*s, "endautoescape");
  } else if (row->name == "generation") {
    parse_simple_block(*s, "endgeneration");
  } else if (loops_ == 0) {
    fail(std::string(row->name) + " outside of a loop");
  }
  expect(TokenType::kBlockEnd, "the end of the tag");
  return s;
}

void Parser::parse_if(Stmt& s) {
  bool more = true;
  while (more) {
    s.exprs.push_back(tuple(Tuple::kNoCond));
    s.bodies.push_back(block_body({"elif", "else", "endif"}));
    more = skip_name("elif");
  }
  if (skip_name("else")) s.bodies.push_back(block_body({"endif"}));
  end_block("endif");
}

void Parser::parse_for(Stmt& s) {
  s.exprs.push_back(target(false, "in"));
  if (!skip_name("in")) fail("expected 'in', got " + describe(now()));
  s.exprs.push_back(tuple(Tuple::kNoCond, "recursive"));
  s.exprs.push_back(skip_name("if") ? expression() : nullptr);
  s.recursive = skip_name("recursive");
  ++loops_;
  s.bodies.push_back(block_body({"else", "endfor"}));
  --loops_;
  s.bodies.push_back(skip_name("else") ? block_body({"endfor"}) : Body());
  end_block("endfor");
}

void Parser::parse_set(Stmt& s) {
  s.exprs.push_back(target(false));
  if (skip_op("=")) {
    s.exprs.push_back(tuple(Tuple::kPlain));
    return;
  }
  s.kind = StmtKind::kSetBlock;
  s.exprs.push_back(now().is_op("|") ? filter_chain(nullptr) : nullptr);
  parse_simple_block(s, "endset");
}

void Parser::parse_with(Stmt& s) {
  while (!now().is(TokenType::kBlockEnd)) {
    if (!s.exprs.empty()) expect_op(",");
    s.exprs.push_back(target(false));
    expect_op("=");
    s.exprs.push_back(expression());
  }
  parse_simple_block(s, "endwith");
}

void Parser::parse_simple_block(Stmt& s, std::string_view end) {
  s.bodies.push_back(block_body({end}));
  end_block(end);
}

void Parser::parse_signature(MacroDef& macro) {
  expect_op("(");
  while (!now().is_op(")")) {
    if (!macro.parameters.empty()) {
      expect_op(",");
      if (now().is_op(")")) break;
    }
    std::string name = expect_name();
    macro.parameters.push_back(name_id(name));
    macro.parameter_names.push_back(std::move(name));
    if (skip_op("="))
      macro.defaults.push_back(expression());
    else if (!macro.defaults.empty())
      fail("a parameter without default follows one with default");
  }
  expect_op(")");
}

/// Loop controls do not reach out of a macro, and what it reads decides which surplus arguments it accepts.
void Parser::parse_macro_body(MacroDef& macro, std::string_view end) {
  macros_.push_back(&macro);
  const int loops = std::exchange(loops_, 0);
  macro.body = block_body({end});
  loops_ = loops;
  macros_.pop_back();
  end_block(end);
}

void Parser::parse_macro(Stmt& s) {
  s.macro = std::make_unique<MacroDef>();
  s.macro->name = expect_name();
  s.macro->id = name_id(s.macro->name);
  parse_signature(*s.macro);
  parse_macro_body(*s.macro, "endmacro");
}

void Parser::parse_call_block(Stmt& s) {
  s.macro = std::make_unique<MacroDef>();
  s.macro->name = "caller";
  if (now().is_op("(")) parse_signature(*s.macro);
  s.exprs.push_back(expression());
  if (s.exprs[0]->kind != ExprKind::kCall) fail("expected a call");
  parse_macro_body(*s.macro, "endcall");
}

void Parser::parse_filter_block(Stmt& s) {
  s.exprs.push_back(filter(nullptr));
  if (now().is_op("|")) s.exprs[0] = filter_chain(std::move(s.exprs[0]));
  parse_simple_block(s, "endfilter");
}

}  // namespace octavo::jinja
