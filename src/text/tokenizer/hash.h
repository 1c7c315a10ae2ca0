// One string hash for the vocabulary, the merges and the word cache: multiply and fold, 8 bytes at a time.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace octavo::tok {

inline uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15u) * (b ^ 0xD6E8FEB86659FD93u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(std::string_view bytes) {
  uint64_t state = bytes.size();
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = mix(state, word);
  }
  uint64_t tail = 0;
  if (n) std::memcpy(&tail, p, n);
  return mix(state, tail);
}

}  // namespace octavo::tok
