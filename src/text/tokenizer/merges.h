// The merges of a BPE model and the loop that applies them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace octavo::tok {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank = UINT32_MAX;  // UINT32_MAX: no such merge
    int32_t id = -1;             // the token that the pair becomes
  };

  void reserve(size_t merges);
  /// A pair given twice keeps its last rank.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;
  size_t size() const { return used_; }

 private:
  struct Slot {
    uint64_t key = kFree;  // left id, right id
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;  // no pair: ids are not negative
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;
  void grow(size_t slots);

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  size_t used_ = 0;
};

/// Merges symbols in place until no pair has a merge.
void merge_symbols(const MergeTable& merges, std::vector<int32_t>& symbols);

}  // namespace octavo::tok
