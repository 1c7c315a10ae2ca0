#include "engine/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace octavo {

BlockPool::BlockPool(int32_t num_blocks)
    : blocks_(num_blocks + 1), buckets_(std::bit_ceil<size_t>(num_blocks + 1), -1), sentinel_(num_blocks) {
  blocks_[sentinel_].previous = blocks_[sentinel_].next = sentinel_;
  for (int32_t b = 0; b < num_blocks; ++b) link(b, sentinel_);
}

// Groups share ids but not content. A difference in few known bits of a 128-bit digest is as hard to hit as
// equality.
BlockHash BlockPool::key(const BlockHash& hash, int group) {
  return {hash.low, hash.high ^ static_cast<uint64_t>(group)};
}

void BlockPool::link(int32_t block, int32_t before) {
  int32_t previous = blocks_[before].previous;
  blocks_[block].previous = previous;
  blocks_[block].next = before;
  blocks_[previous].next = blocks_[before].previous = block;
  ++num_free_;
}

void BlockPool::unlink(int32_t block) {
  Block& b = blocks_[block];
  blocks_[b.previous].next = b.next;
  blocks_[b.next].previous = b.previous;
  --num_free_;
}

int32_t BlockPool::alloc() {
  int32_t block = blocks_[sentinel_].next;
  if (block == sentinel_) return -1;
  unlink(block);
  unpublish(block);
  blocks_[block].refs = 1;
  return block;
}

void BlockPool::acquire(int32_t block) {
  if (blocks_[block].refs++ == 0) unlink(block);
}

void BlockPool::release(int32_t block) {
  Block& b = blocks_[block];
  OCTAVO_CHECK(b.refs > 0, "block ", block, " released twice");
  if (--b.refs == 0) link(block, b.published ? sentinel_ : blocks_[sentinel_].next);
}

void BlockPool::publish(int32_t block, const BlockHash& hash, int group) {
  Block& b = blocks_[block];
  OCTAVO_CHECK(b.refs > 0 && !b.published);
  b.key = key(hash, group);
  b.published = true;
  b.chain = bucket(b.key);
  bucket(b.key) = block;
}

int32_t BlockPool::find(const BlockHash& hash, int group) const {
  BlockHash wanted = key(hash, group);
  int32_t block = buckets_[wanted.low & (buckets_.size() - 1)];
  while (block >= 0 && !(blocks_[block].key == wanted)) block = blocks_[block].chain;
  return block;
}

void BlockPool::unpublish(int32_t block) {
  Block& b = blocks_[block];
  if (!b.published) return;
  int32_t* link = &bucket(b.key);
  while (*link != block) link = &blocks_[*link].chain;
  *link = b.chain;
  b.published = false;
}

bool BlockPool::reset_cache() {
  if (num_free_ != num_blocks()) return false;
  for (Block& b : blocks_) b.published = false;
  std::fill(buckets_.begin(), buckets_.end(), -1);
  return true;
}

}  // namespace octavo
