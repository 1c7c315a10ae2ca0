#include "text/tokenizer/byte_level.h"

#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

struct Alphabet {
  std::array<char32_t, 256> of_byte;
  std::array<int16_t, 0x144> of_char;  // -1: not in the alphabet

  Alphabet() {
    of_char.fill(-1);
    char32_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      of_byte[b] = printable ? static_cast<char32_t>(b) : next++;
      of_char[of_byte[b]] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

char32_t byte_level_char(uint8_t byte) { return alphabet().of_byte[byte]; }

bool append_byte_level_decoded(std::string_view token, std::string& out) {
  const Alphabet& table = alphabet();
  const size_t before = out.size();
  for (const char* p = token.data(); p != token.data() + token.size();) {
    const char32_t c = next_char(p);
    if (c >= table.of_char.size() || table.of_char[c] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(table.of_char[c]);
  }
  return true;
}

void append_byte_level_encoded(std::string_view bytes, std::string& out) {
  for (const char b : bytes) append_char(alphabet().of_byte[static_cast<uint8_t>(b)], out);
}

}  // namespace octavo::tok
