// Source of a template to tokens, with jinja2's whitespace rules (trim_blocks and lstrip_blocks on, as
// transformers sets them): '-' strips all space on its side, '+' keeps it, a newline after a block goes, and
// so does the indentation in front of a block that begins its line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/template/budget.h"

namespace octavo::jinja {

enum class TokenType : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;  // data, decoded string, name, digits, or the operator itself
  Position position;
  bool is(TokenType t) const { return type == t; }
  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
  bool is_op(std::string_view op) const { return type == TokenType::kOperator && text == op; }
};

/// Throws TemplateError. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source, const TemplateLimits& limits);

}  // namespace octavo::jinja
