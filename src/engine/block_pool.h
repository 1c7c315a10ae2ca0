// The blocks of the KV cache as integers: who uses which, which of the unused ones still hold a known prefix,
// and in what order those are given up. All memory is taken by the constructor.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/block_hash.h"

namespace octavo {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()) - 1; }
  /// Blocks without a user; those that only the prefix cache keeps are among them.
  int32_t num_free() const { return num_free_; }
  int32_t refs(int32_t block) const { return blocks_[block].refs; }

  /// Takes the free block that is given up first (no content, else least recently used); -1 when all are in
  /// use.
  int32_t alloc();
  /// One more user of a block found by find().
  void acquire(int32_t block);
  /// One user less. An unused block with a hash stays findable until its turn to be reused. Give a sequence's
  /// blocks back last one first: of a prefix the tail is then evicted before what others more likely share.
  void release(int32_t block);

  /// Makes a block in use findable. Several blocks may hold the same content (computed side by side); each
  /// counts.
  void publish(int32_t block, const BlockHash& hash, int group);
  /// A block with this content, or -1.
  int32_t find(const BlockHash& hash, int group) const;
  /// Takes a block out of the prefix cache (its content is not to be trusted).
  void unpublish(int32_t block);
  /// Forgets all content. False, and nothing done, while blocks are in use.
  bool reset_cache();

 private:
  struct Block {
    BlockHash key;  // valid while published
    int32_t refs = 0;
    int32_t previous = -1, next = -1;  // free list; the last element of blocks_ is its sentinel
    int32_t chain = -1;                // next block of the same bucket
    bool published = false;
  };

  static BlockHash key(const BlockHash& hash, int group);
  int32_t& bucket(const BlockHash& key) { return buckets_[key.low & (buckets_.size() - 1)]; }
  void link(int32_t block, int32_t before);
  void unlink(int32_t block);

  std::vector<Block> blocks_;
  std::vector<int32_t> buckets_;  // power of two; heads of chains, -1 empty
  int32_t sentinel_, num_free_ = 0;
};

}  // namespace octavo
