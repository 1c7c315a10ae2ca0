#include "text/tokenizer/char_class.h"

#include <unicode/uchar.h>

#include <map>

namespace octavo::tok {
namespace {

bool is_in_unicode8(UChar32 c) {
  UVersionInfo age;
  u_charAge(c, age);
  return age[0] >= 1 && age[0] <= 8;
}

uint8_t classify(UChar32 c) {
  const uint32_t category = U_GET_GC_MASK(c);
  uint8_t result = 0;
  if (category & U_GC_L_MASK) result |= kLetter;
  if (category & U_GC_N_MASK) result |= kNumber;
  if (category & U_GC_M_MASK) result |= kMark;
  if (category & (U_GC_LU_MASK | U_GC_LT_MASK)) result |= kUpper;
  if (category & U_GC_LL_MASK) result |= kLower;
  // Two characters were punctuation in Unicode 8 and are none now.
  if ((category & U_GC_P_MASK && is_in_unicode8(c)) || c == 0x166D || c == 0x111C9) result |= kPunct;
  if (u_hasBinaryProperty(c, UCHAR_WHITE_SPACE)) result |= kSpace;
  if (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) || u_hasBinaryProperty(c, UCHAR_ALPHABETIC) ||
      u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL)) {
    result |= kWord;
  }
  return result;
}

}  // namespace

const CharClasses& CharClasses::instance() {
  static const CharClasses classes;
  return classes;
}

CharClasses::CharClasses() {
  std::map<Block, uint16_t> known;
  for (size_t high = 0; high < block_of_.size(); ++high) {
    Block block;
    for (size_t low = 0; low < block.size(); ++low)
      block[low] = classify(static_cast<UChar32>(high << 8 | low));
    const auto [it, is_new] = known.emplace(block, static_cast<uint16_t>(blocks_.size()));
    if (is_new) blocks_.push_back(block);
    block_of_[high] = it->second;
  }
  for (size_t c = 0; c < ascii_.size(); ++c) ascii_[c] = blocks_[block_of_[0]][c];
}

}  // namespace octavo::tok
