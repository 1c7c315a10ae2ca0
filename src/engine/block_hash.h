// Content hashes of full KV blocks. A block's hash covers its parent's hash, so it names the whole prefix;
// the extra keys (cache_salt) enter with the first block and reach the others through the chain.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace octavo {

/// 128 bits of SHA-256. A weaker hash would let one client build a prompt whose blocks are another's: the
/// prefix cache never compares tokens.
struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

/// Parent of a first block; `salt` separates users who must not share (and must not time) one another's
/// prefixes.
BlockHash root_hash(std::string_view salt);
/// Of the block that holds `tokens` after `parent`. Allocates nothing.
BlockHash block_hash(const BlockHash& parent, std::span<const int32_t> tokens);

}  // namespace octavo
