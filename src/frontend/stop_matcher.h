// Finds stop strings in text that comes piece by piece, wherever token borders fall.
//
// Text passes through: what cannot become part of a match is released at once, the longest tail that is the
// beginning of a stop string is held back. (vLLM holds back max stop length - 1 characters always; the joined
// text is the same and here it comes sooner.) Of several matches that one piece completes, the one that
// begins first wins, then the longer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace octavo {

class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop)
      : stops_(std::move(stops)), include_stop_(include_stop) {}

  /// Adds one token's text and appends what is released to `out`. `may_match` is false for tokens below
  /// min_tokens: their text passes, and later matches begin after it. Returns true on a match; nothing comes
  /// after it.
  bool push(std::string_view text, bool may_match, std::string& out);
  /// Releases what is held back: generation has ended.
  void finish(std::string& out);

  /// The matched string, after push() returned true.
  const std::string& matched() const { return stops_[matched_]; }

 private:
  size_t held_tail() const;

  std::vector<std::string> stops_;
  const bool include_stop_;
  size_t matched_ = 0;
  std::string held_;
};

}  // namespace octavo
