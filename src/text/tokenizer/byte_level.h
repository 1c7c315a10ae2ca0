// GPT-2's alphabet: each byte as one printable character, so that a vocabulary of byte strings is a JSON of
// text. Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68 are U+0100, U+0101, ... in
// rising order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace octavo::tok {

/// The character for a byte.
char32_t byte_level_char(uint8_t byte);

/// Appends the bytes that `token` (valid UTF-8) spells. False, and out is left as it was, if it has a
/// character outside the alphabet.
bool append_byte_level_decoded(std::string_view token, std::string& out);

void append_byte_level_encoded(std::string_view bytes, std::string& out);

}  // namespace octavo::tok
