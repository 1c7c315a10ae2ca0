// Compiled normalization rules put together by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/normalizer.h"

namespace octavo::tok {
namespace {

/// A map with one rule, 'a' -> `result`: unit 0 is the root, unit 'a' has a value child at 'a' ^ 1.
std::string one_rule(const std::string& result) {
  std::vector<uint32_t> units('a' + 1);
  units['a'] = 'a' | 0x100u | 1u << 10;
  units['a' ^ 1] = 0;  // offset of the result
  std::string out(4 + units.size() * 4, '\0');
  const auto bytes = static_cast<uint32_t>(units.size() * 4);
  std::memcpy(out.data(), &bytes, 4);
  std::memcpy(out.data() + 4, units.data(), bytes);
  return out + result + '\0';
}

std::string normalized(const std::string& map, std::string text) {
  make_precompiled_normalizer(map, "f.json")->apply(text);
  return text;
}

TEST(Precompiled, ReplacesWhatTheMapNames) {
  EXPECT_EQ(normalized(one_rule("xy"), "banana"), "bxynxynxy");
  EXPECT_EQ(normalized(one_rule(""), "banana"), "bnn");
}

// Models decode what they get without checks: a result that ends within a character must not get there.
TEST(Precompiled, ResultsThatAreNotUtf8AreRepaired) {
  EXPECT_EQ(normalized(one_rule("\xE2"), "ba"), "b\xEF\xBF\xBD");
  EXPECT_EQ(normalized(one_rule("\x96\x81"), "ba").find("\xEF\xBF\xBD"), 1u);
}

TEST(Precompiled, BrokenMapsAreRefused) {
  for (const std::string& map :
       {std::string(), std::string("abc"), std::string(4, '\xff'), std::string(8, '\0')})
    EXPECT_THROW(make_precompiled_normalizer(map, "f.json"), Error) << map.size();
}

}  // namespace
}  // namespace octavo::tok
