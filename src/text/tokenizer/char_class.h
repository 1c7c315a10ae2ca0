// Character classes of all of Unicode as one byte per character, for the scanners and the simple splitters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace octavo::tok {

enum CharClass : uint8_t {
  kLetter = 1,  // \p{L}
  kNumber = 2,  // \p{N}
  kSpace = 4,   // \p{White_Space}, what Oniguruma and Rust mean by \s
  kMark = 8,    // \p{M}
  kUpper = 16,  // \p{Lu} \p{Lt}
  kLower = 32,  // \p{Ll}
  kPunct = 64,  // \p{P} of Unicode 8, which the reference has for its punctuation
  kWord = 128,  // \w of Oniguruma and Rust: Alphabetic, M, Nd, Pc, Join_Control
};

/// Two stages: 4,352 blocks of 256 characters, equal blocks stored once (about 60 kB). Built once from ICU.
class CharClasses {
 public:
  static const CharClasses& instance();
  uint8_t operator()(char32_t c) const { return c < 0x80 ? ascii_[c] : blocks_[block_of_[c >> 8]][c & 0xFF]; }

 private:
  CharClasses();
  using Block = std::array<uint8_t, 256>;
  std::array<uint8_t, 128> ascii_;
  std::array<uint16_t, 0x1100> block_of_;
  std::vector<Block> blocks_;
};

inline uint8_t char_class(char32_t c) { return CharClasses::instance()(c); }
inline bool is_space(char32_t c) { return char_class(c) & kSpace; }
/// Punctuation as BERT means it: \p{P} and all ASCII signs.
inline bool is_punctuation(char32_t c) {
  return (c < 0x80 && (c == '$' || c == '+' || c == '<' || c == '=' || c == '>' || c == '^' || c == '`' ||
                       c == '|' || c == '~')) ||
         (char_class(c) & kPunct);
}

}  // namespace octavo::tok
