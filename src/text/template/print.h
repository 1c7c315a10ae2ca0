// Values as text: Python's str and repr, json.dumps, printf and str.format.
#pragma once

#include <string>
#include <string_view>

#include "text/template/builtin.h"

namespace octavo::jinja {

/// Python's str().
std::string to_text(Runtime& rt, const Value& v);
/// The same where it is already text: no copy.
void append_text(Runtime& rt, std::string& out, const Value& v);
std::string repr(Runtime& rt, const Value& v);
std::string float_repr(double d);

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  bool multiline = false;
  std::string indent;  // of one level
  std::string item_separator = ", ", key_separator = ": ";
};
std::string to_json(Runtime& rt, const Value& v, const JsonStyle& style);

/// `format % args`
std::string printf_text(Runtime& rt, std::string_view format, const Value& args);
/// format.format(*args, **named)
std::string format_text(Runtime& rt, std::string_view format, const Args& args);
/// time.strftime in the C locale, local time.
std::string strftime_text(Runtime& rt, const std::string& format);

std::string escape_html(std::string_view text);

}  // namespace octavo::jinja
