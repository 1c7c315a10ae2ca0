// The distinct tokens of a sequence and how often each was generated, for the penalties: their cost follows
// the length of the text, not the vocabulary.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace octavo {

class TokenCounts {
 public:
  struct Entry {
    int32_t token;
    int32_t outputs;  ///< 0: in the prompt only
  };

  TokenCounts() = default;
  /// For at most `distinct` different tokens.
  explicit TokenCounts(int64_t distinct) : slots_(std::bit_ceil<uint64_t>(2 * distinct + 1), -1) {
    entries_.reserve(distinct);
  }

  void add(int32_t token, bool output) {
    size_t slot = static_cast<uint32_t>(token) * size_t{0x9e3779b1} & (slots_.size() - 1);
    while (slots_[slot] >= 0 && entries_[slots_[slot]].token != token)
      slot = (slot + 1) & (slots_.size() - 1);
    if (slots_[slot] < 0) {
      slots_[slot] = static_cast<int32_t>(entries_.size());
      entries_.push_back({token, 0});
    }
    entries_[slots_[slot]].outputs += output;
  }
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;  // in order of first appearance
  std::vector<int32_t> slots_;  // open addressing; index into entries_ or -1
};

}  // namespace octavo
