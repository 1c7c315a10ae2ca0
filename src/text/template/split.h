// String work that methods and filters share.
#pragma once

#include <string>
#include <string_view>

#include "text/template/builtin.h"

namespace octavo::jinja {

/// Python's split and rsplit; at white space if `sep` is null. No limit if `limit` < 0.
Value split(Runtime& rt, const std::string& text, const std::string* sep, int64_t limit, bool from_right);
Value split_lines(Runtime& rt, const std::string& text, bool keep_ends);
std::string replace(Runtime& rt, const std::string& text, const std::string& from, const std::string& to,
                    int64_t limit);
std::string swap_case(std::string_view s);

/// Keys, values or (key, value) tuples of a dict.
Value items_of(Runtime& rt, const Value& dict, SeqType type);

// Python's str.isX; the value is a str.
Value is_alpha(const Value& v);
Value is_digit(const Value& v);
Value is_numeric(const Value& v);
Value is_decimal(const Value& v);
Value is_alnum(const Value& v);
Value is_space_str(const Value& v);
Value is_lower(const Value& v);
Value is_upper(const Value& v);

}  // namespace octavo::jinja
