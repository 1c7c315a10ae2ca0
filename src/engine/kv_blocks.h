// Block tables of sequences over the pool: one table per KV group. Full-attention groups keep all blocks of a
// sequence; a sliding-window group gives back what no later token can see.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/block_pool.h"
#include "engine/sequence.h"

namespace octavo {

/// Blocks that a sequence of `len` tokens holds at the most over all groups, computed in chunks of at most
/// `chunk` tokens.
int64_t kv_peak_blocks(std::span<const int64_t> windows, int64_t len, int block_size, int64_t chunk);
/// The longest sequence whose peak is at most `blocks`.
int64_t kv_longest(std::span<const int64_t> windows, int64_t blocks, int block_size, int64_t chunk);

struct KvBlocksConfig {
  std::vector<int64_t> windows;  ///< one entry a KV group, 0: full attention (KvGroupSpec::window)
  int block_size = 0;
  int64_t max_chunk =
      0;  ///< most tokens of one sequence in a step; a sliding group holds window + chunk at a time
  int64_t max_len = 0;  ///< longest sequence that will come
  bool prefix_caching = true;
};

class KvBlocks {
 public:
  KvBlocks(BlockPool& pool, const KvBlocksConfig& config);

  int num_groups() const { return static_cast<int>(windows_.size()); }
  int block_size() const { return block_size_; }
  bool prefix_caching() const { return prefix_caching_; }
  int64_t max_chunk() const { return max_chunk_; }

  /// The longest sequence that the pool can hold when it has it for itself.
  int64_t longest_alone() const { return longest_alone_; }
  /// Blocks still to be taken before all present tokens of the sequence are computed.
  int64_t missing_blocks(const Sequence& seq) const;

  /// Completes seq.hashes to the first `blocks` blocks. Any thread: a submitter hashes its own prompt.
  void know_hashes(Sequence& seq, int64_t blocks) const;
  /// Takes the cached blocks of the longest known prefix (whole blocks, at most len - 1 tokens: the last
  /// token must be computed to give logits) and returns its length. The sequence must hold no blocks.
  int64_t take_prefix(Sequence& seq);
  /// Gives back blocks that the tokens from `first` on do not see, then takes those for tokens [first, end).
  /// False when the pool is empty; the sequence keeps what it got.
  bool extend(Sequence& seq, int64_t first, int64_t end);
  /// Makes the blocks that tokens [first, end) fill findable. Done when the step is planned, not after it:
  /// layers store K and V of the whole batch before they attend, so another sequence of the same step may
  /// already read them.
  void publish(Sequence& seq, int64_t first, int64_t end);
  /// Undoes publish for all blocks of the sequence from token `first` on.
  void unpublish(Sequence& seq, int64_t first);
  /// Gives everything back.
  void release(Sequence& seq);

 private:
  int64_t find_prefix(const Sequence& seq, int64_t limit);

  BlockPool& pool_;
  const std::vector<int64_t> windows_;
  const int block_size_;
  int64_t max_chunk_;
  const bool prefix_caching_;
  int64_t longest_alone_;
  std::vector<int64_t> run_;  // [groups] scratch of find_prefix
};

}  // namespace octavo
