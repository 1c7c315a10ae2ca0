#include "text/tokenizer/byte_trie.h"

#include "text/tokenizer/hash.h"

namespace octavo::tok {

size_t ByteTrie::slot_of(uint32_t node, uint8_t byte) const {
  const size_t mask = slots_.size() - 1;
  size_t i = mix(uint64_t{node} << 8 | byte, 0) & mask;
  while (slots_[i].node != kNone && (slots_[i].node != node || slots_[i].byte != byte)) i = (i + 1) & mask;
  return i;
}

void ByteTrie::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.node != kNone) slots_[slot_of(slot.node, slot.byte)] = slot;
  }
}

void ByteTrie::add(std::string_view key, int32_t value) {
  uint32_t node = kRoot;
  for (const char c : key) {
    if (values_.size() * 2 >= slots_.size()) grow();
    Slot& slot = slots_[slot_of(node, static_cast<uint8_t>(c))];
    if (slot.node == kNone) {
      slot = {node, static_cast<uint32_t>(values_.size()), static_cast<uint8_t>(c)};
      values_.push_back(-1);
    }
    node = slot.child;
  }
  values_[node] = value;
}

uint32_t ByteTrie::step(uint32_t node, uint8_t byte) const { return slots_[slot_of(node, byte)].child; }

}  // namespace octavo::tok
