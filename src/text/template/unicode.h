// Code points in UTF-8 and Python's character classes and case mappings over them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::jinja {

bool valid_utf8(std::string_view s);
int64_t count_code_points(std::string_view s);
/// Bytes of the character that starts at `at`; `s` is valid UTF-8.
size_t char_bytes(std::string_view s, size_t at);
char32_t code_point(std::string_view s, size_t at);
void append_utf8(std::string& out, char32_t c);
/// Byte offset of code point `index` (0 <= index <= length).
size_t byte_offset(std::string_view s, int64_t index);
/// Byte offsets of all characters, and the size at the end.
std::vector<size_t> char_offsets(std::string_view s);

bool is_space(char32_t c);      // str.isspace, and \s of re
bool is_printable(char32_t c);  // str.isprintable
bool is_word(char32_t c);       // \w of re

std::string to_upper(std::string_view s);
std::string to_lower(std::string_view s);
std::string to_title(std::string_view s);        // str.title
std::string to_capitalised(std::string_view s);  // str.capitalize

/// Strip as Python: of whitespace if `chars` is null, else of any of its characters.
std::string_view strip(std::string_view s, bool left, bool right, const std::string_view* chars = nullptr);

}  // namespace octavo::jinja
