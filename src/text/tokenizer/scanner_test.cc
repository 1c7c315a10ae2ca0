#include "text/tokenizer/scanner.h"

#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <random>

#include "text/tokenizer/char_class.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

// Characters near the patterns' borders, and any others that both libraries know (PCRE2 10.42 has Unicode
// 14).
std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> likely = {
      " ",      " ",      "  ",     "\n",      "\r",     "\r\n",   "\t",     "'",      "'s",     "'S",
      "'T",     "'ll",    "'Re",    "'\u017F", "'x",     "a",      "b",      "Z",      "Q",      "é",
      "É",      "ǅ",      "ʰ",      "日",      "ß",      "1",      "23",     "²",      "Ⅷ",      "٣",
      "!",      "/",      "//",     "$",       "\u0301", "\u0903", "\u00A0", "\u2003", "\u2028", "\u0085",
      "\u180E", "\u200B", "\u200D", "😀",       "\u2581", "_"};
  std::string text;
  const size_t parts = random() % 24;
  for (size_t i = 0; i < parts; ++i) {
    if (random() % 8) {
      text += likely[random() % likely.size()];
      continue;
    }
    UVersionInfo age;
    char32_t c;
    do {
      c = static_cast<char32_t>(random() % (random() % 2 ? 0x3000 : 0x20000));
      u_charAge(static_cast<UChar32>(c), age);
    } while (age[0] == 0 || age[0] > 14 || (c >= 0xD800 && c < 0xE000));
    append_char(c, text);
  }
  return text;
}

TEST(Scanner, CutsAsTheRegexDoes) {
  std::mt19937 random(7);
  for (const KnownPattern& known : known_patterns()) {
    const Regex regex(known.regex, "test");
    for (int i = 0; i < 20000; ++i) {
      const std::string text = random_text(random);
      Spans scanned, matched;
      known.scan(text, scanned);
      regex.find_all(text, matched);
      ASSERT_EQ(scanned, matched) << known.name << ": " << testing::PrintToString(text);
    }
  }
}

TEST(Scanner, KnowsOnlyExactPatterns) {
  EXPECT_NE(find_scanner(kO200kPattern), nullptr);
  EXPECT_EQ(find_scanner("\\p{L}+"), nullptr);
}

TEST(CharClasses, AgreeWithKnownCharacters) {
  EXPECT_EQ(char_class('a'), kLetter | kLower | kWord);
  EXPECT_EQ(char_class(U'ǅ'), kLetter | kUpper | kWord);
  EXPECT_EQ(char_class(U'日'), kLetter | kWord);
  EXPECT_EQ(char_class(U'²'), kNumber);
  EXPECT_EQ(char_class(0x85), kSpace);
  EXPECT_EQ(char_class(0x180E), 0);  // once a space
  EXPECT_EQ(char_class(0x301), kMark | kWord);
  EXPECT_EQ(char_class(0x200D), kWord);
  EXPECT_EQ(char_class(0x10FFFF), 0);
  EXPECT_TRUE(is_punctuation('$'));
  EXPECT_FALSE(is_punctuation(U'€'));
}

TEST(Regex, TranslatesOniguruma) {
  EXPECT_EQ(pcre2_from_oniguruma("\\s[^\\s\\p{L}]"), "[\\p{White_Space}][^\\p{White_Space}\\p{L}]");
  EXPECT_EQ(pcre2_from_oniguruma("\\p{N}{1,3}+x"), "(?:\\p{N}{1,3})+x");
  EXPECT_EQ(pcre2_from_oniguruma("(a|[b{]){2}+"), "(?:(a|[b{]){2})+");
  EXPECT_EQ(pcre2_from_oniguruma("\\h[\\H]"), "[0-9a-fA-F](?:(?!)|[^0-9a-fA-F])");
  EXPECT_EQ(pcre2_from_oniguruma("[]a]+\\"), "[]a]+\\");
}

TEST(Regex, FindsEmptyMatchesOnce) {
  Spans found;
  Regex("x*", "test").find_all("éxx", found);
  EXPECT_EQ(found, (Spans{{0, 0}, {2, 4}, {4, 4}}));
}

TEST(Regex, NamesWhereItIsWrong) {
  try {
    Regex("(a", "file: pattern");
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("file: pattern: regular expression \"(a\""), std::string::npos);
  }
}

}  // namespace
}  // namespace octavo::tok
