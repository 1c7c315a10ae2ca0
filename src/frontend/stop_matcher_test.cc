#include "frontend/stop_matcher.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

struct Result {
  std::string text, matched;
};

/// Feeds the pieces as tokens; the first `unmatchable` may not take part in a match.
Result feed(std::vector<std::string> stops, const std::vector<std::string>& pieces, bool include = false,
            size_t unmatchable = 0) {
  StopMatcher matcher(std::move(stops), include);
  Result out;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (matcher.push(pieces[i], i >= unmatchable, out.text)) {
      out.matched = matcher.matched();
      return out;
    }
  matcher.finish(out.text);
  return out;
}

// BL-10: a stop string that begins or ends inside a token.
TEST(StopMatcher, FindsStopsAcrossAndInsideTokens) {
  EXPECT_EQ(feed({" six seven"}, {" five", " six", " seven", " eight"}).text, " five");
  Result inside = feed({"fi"}, {" four", " five"});
  EXPECT_EQ(inside.text, " four ");
  EXPECT_EQ(inside.matched, "fi");
  EXPECT_EQ(feed({"fi"}, {" four", " five"}, true).text, " four fi");
  EXPECT_EQ(feed({"é"}, {"caf", "é", "!"}).text, "caf");
}

TEST(StopMatcher, ReleasesWhatDidNotBecomeAMatch) {
  StopMatcher matcher({"abcd"}, false);
  std::string out;
  EXPECT_FALSE(matcher.push("xab", true, out));
  EXPECT_EQ(out, "x");
  EXPECT_FALSE(matcher.push("ab", true, out));
  EXPECT_EQ(out, "xab");
  matcher.finish(out);
  EXPECT_EQ(out, "xabab");
}

TEST(StopMatcher, EarliestThenLongestWins) {
  EXPECT_EQ(feed({"cd", "abcd"}, {"xabcd"}).matched, "abcd");
  EXPECT_EQ(feed({"ab", "abc"}, {"abcd"}).matched, "abc");
  EXPECT_EQ(feed({"b", "a"}, {"..ab"}).text, "..");
  EXPECT_EQ(feed({"aab"}, {"a", "a", "a", "b"}).text, "a");
}

// BL-11: only text produced after the minimum may match.
TEST(StopMatcher, TextBelowMinTokensNeverMatches) {
  EXPECT_EQ(feed({"\n"}, {"a\n", "b\n", "c\n", "d"}, false, 2).text, "a\nb\nc");
  EXPECT_EQ(feed({"ab"}, {"a", "b", "ab"}, false, 1).text, "ab");
}

// Streamed and whole text agree however the text is cut.
TEST(StopMatcher, CutsDoNotMatterForOneStop) {
  const std::string text = "the cat sat on the mat, the catalogue";
  for (size_t size = 1; size <= text.size(); ++size) {
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size(); at += size) pieces.push_back(text.substr(at, size));
    EXPECT_EQ(feed({"the mat"}, pieces).text, "the cat sat on ") << size;
  }
}

}  // namespace
}  // namespace octavo
