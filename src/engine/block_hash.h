// Content hashes of full KV blocks. A block's hash covers its parent's hash, so it names the whole prefix;
// the extra keys (cache_salt) enter with the first block and reach the others through the chain.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

typedef struct evp_md_ctx_st EVP_MD_CTX;

namespace octavo {

/// 128 bits of SHA-256. A weaker hash would let one client build a prompt whose blocks are another's: the
/// prefix cache never compares tokens.
struct BlockHash {
  uint64_t low = 0, high = 0;
  bool operator==(const BlockHash&) const = default;
};

/// Holds one digest context, so hashing a block allocates nothing. One thread at a time.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();
  BlockHasher(const BlockHasher&) = delete;
  BlockHasher& operator=(const BlockHasher&) = delete;

  /// Parent of a first block; `salt` separates users who must not share (and must not time) one another's
  /// prefixes.
  BlockHash root(std::string_view salt);
  BlockHash next(const BlockHash& parent, std::span<const int32_t> tokens);

 private:
  BlockHash digest(const BlockHash& parent, const void* data, size_t bytes);
  EVP_MD_CTX* context_;
};

}  // namespace octavo
