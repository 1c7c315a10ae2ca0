// How many prefill tokens a step may have, from measured speed: a step holds all its sequences until it ends,
// so a long prompt is cut such that running streams go on at a bearable pace, and that arrivals and aborts
// are seen soon. On a CPU 2,048 tokens of a model of 1 G parameters take half a minute.
// --max-num-batched-tokens remains the upper bound.
#pragma once

#include <algorithm>
#include <cstdint>

namespace octavo {

class PrefillPacer {
 public:
  /// A step that also decodes is to take about this long; the floor keeps weights well used (they are read
  /// once a step).
  static constexpr double kWithDecodes = 0.2;
  static constexpr int64_t kLeastWithDecodes = 32;
  /// A step of prefills alone. A longer one gains nothing: at 128 tokens a matrix product is bound by
  /// arithmetic.
  static constexpr double kAlone = 2.0;
  static constexpr int64_t kLeastAlone = 128;

  explicit PrefillPacer(double seconds_per_token) : seconds_(seconds_per_token) {}

  void observe(int64_t tokens, int64_t prefill_tokens, double seconds) {
    if (prefill_tokens < 16) return;  // says little about the speed of a prefill
    double sample = seconds / static_cast<double>(tokens);
    seconds_ = seconds_ > 0 ? (seconds_ + sample) / 2 : sample;
  }
  int64_t with_decodes() const { return tokens(kWithDecodes, kLeastWithDecodes); }
  int64_t alone() const { return tokens(kAlone, kLeastAlone); }

 private:
  int64_t tokens(double target, int64_t least) const {
    return std::max(least, static_cast<int64_t>(std::min(target / std::max(seconds_, 1e-9), 1e9)));
  }
  double seconds_;  // a token, smoothed
};

}  // namespace octavo
