#include "text/tokenizer/vocab.h"

#include <bit>

#include "base/error.h"
#include "text/tokenizer/hash.h"

namespace octavo::tok {

void Vocab::reserve(size_t tokens, size_t bytes) {
  bytes_.reserve(bytes);
  entries_.reserve(tokens);
  if (tokens * 2 > slots_.size()) grow(std::bit_ceil(tokens * 2));
}

void Vocab::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    size_t i = hash_bytes(view(entries_[slot.id])) & (slots - 1);
    while (slots_[i].id >= 0) i = (i + 1) & (slots - 1);
    slots_[i] = slot;
  }
}

bool Vocab::add(std::string_view token, int32_t id) {
  OCTAVO_CHECK(id >= 0 && id < kMaxIds, "token id ", id);
  if ((used_slots_ + 1) * 2 > slots_.size()) grow(slots_.empty() ? 256 : slots_.size() * 2);
  if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(id + 1);
  // A slot finds its string through its id, so an id keeps its first string.
  if (entries_[id].used) return view(entries_[id]) == token;
  const uint64_t hash = hash_bytes(token);
  size_t i = hash & (slots_.size() - 1);
  while (slots_[i].id >= 0 && view(entries_[slots_[i].id]) != token) i = (i + 1) & (slots_.size() - 1);
  if (slots_[i].id < 0) ++used_slots_;
  entries_[id] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), true};
  bytes_ += token;
  slots_[i] = {static_cast<uint32_t>(hash >> 32), id};
  return true;
}

int32_t Vocab::find(std::string_view token) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = hash_bytes(token);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].id >= 0; i = (i + 1) & mask) {
    if (slots_[i].hash == static_cast<uint32_t>(hash >> 32) && view(entries_[slots_[i].id]) == token) {
      return slots_[i].id;
    }
  }
  return -1;
}

}  // namespace octavo::tok
