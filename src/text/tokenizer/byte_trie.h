// A trie over byte strings in one hash table: (node, byte) -> node.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace octavo::tok {

class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = UINT32_MAX;

  /// value >= 0; the last value of a key counts.
  void add(std::string_view key, int32_t value);
  /// The child, or kNone.
  uint32_t step(uint32_t node, uint8_t byte) const;
  /// The value of the key that leads here, or -1.
  int32_t value(uint32_t node) const { return values_[node]; }

 private:
  struct Slot {
    uint32_t node = kNone;  // kNone: free
    uint32_t child = kNone;
    uint8_t byte = 0;
  };
  size_t slot_of(uint32_t node, uint8_t byte) const;
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(64);  // open addressing, a power of two, at most half full
  std::vector<int32_t> values_ = {-1};               // by node
};

}  // namespace octavo::tok
