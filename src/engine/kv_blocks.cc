#include "engine/kv_blocks.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace octavo {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// First block that a query at `position` still sees.
int64_t first_visible(int64_t window, int64_t position, int block_size) {
  return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1) / block_size;
}

// A chunk of c tokens and the w - 1 before it touch at most (w + c - 3) / block + 2 blocks, however they are
// aligned.
int64_t group_peak(int64_t window, int64_t len, int block_size, int64_t chunk) {
  int64_t all = ceil_div(len, block_size);
  return window == 0 ? all : std::min(all, (window + chunk + block_size - 3) / block_size + 1);
}

}  // namespace

int64_t kv_peak_blocks(std::span<const int64_t> windows, int64_t len, int block_size, int64_t chunk) {
  int64_t sum = 0;
  for (int64_t window : windows) sum += group_peak(window, len, block_size, chunk);
  return sum;
}

int64_t kv_longest(std::span<const int64_t> windows, int64_t blocks, int block_size, int64_t chunk) {
  int64_t low = 0, high = int64_t{1} << 40;  // with sliding groups only there is no bound
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    if (kv_peak_blocks(windows, middle, block_size, chunk) <= blocks)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

KvBlocks::KvBlocks(BlockPool& pool, const KvBlocksConfig& config)
    : pool_(pool),
      windows_(config.windows),
      block_size_(config.block_size),
      max_chunk_(config.max_chunk),
      prefix_caching_(config.prefix_caching),
      run_(windows_.size()) {
  OCTAVO_CHECK(!windows_.empty() && block_size_ > 0 && max_chunk_ > 0);
  // In a small pool a window and a long chunk may not fit together: shorter chunks then.
  auto longest = [&](int64_t chunk) { return kv_longest(windows_, pool.num_blocks(), block_size_, chunk); };
  int64_t wanted = std::min(config.max_len, longest(block_size_));
  while (longest(max_chunk_) < wanted) max_chunk_ = std::max<int64_t>(block_size_, max_chunk_ / 2);
  longest_alone_ = longest(max_chunk_);
}

int64_t KvBlocks::missing_blocks(const Sequence& seq) const {
  int64_t sum = 0;
  for (int g = 0; g < num_groups(); ++g) {
    int64_t held = static_cast<int64_t>(seq.blocks[g].size()) - seq.first_block[g];
    int64_t left = ceil_div(seq.len(), block_size_) - static_cast<int64_t>(seq.blocks[g].size());
    sum += std::max<int64_t>(
        0, std::min(left, group_peak(windows_[g], seq.len(), block_size_, max_chunk_) - held));
  }
  return sum;
}

void KvBlocks::know_hashes(Sequence& seq, int64_t blocks) const {
  while (static_cast<int64_t>(seq.hashes.size()) < blocks) {
    size_t i = seq.hashes.size();
    std::span<const int32_t> tokens(seq.tokens.data() + i * block_size_, block_size_);
    seq.hashes.push_back(block_hash(i ? seq.hashes[i - 1] : seq.root, tokens));
  }
}

// Block i ends a usable prefix when every group has the blocks up to it that the next token sees: all of
// them, or those of its window. run_[g] counts the cached blocks in a row that end with the present one.
int64_t KvBlocks::find_prefix(const Sequence& seq, int64_t limit) {
  std::fill(run_.begin(), run_.end(), 0);
  int64_t best = 0;
  for (int64_t i = 0; i < limit; ++i) {
    bool usable = true;
    for (int g = 0; g < num_groups(); ++g) {
      run_[g] = pool_.find(seq.hashes[i], g) >= 0 ? run_[g] + 1 : 0;
      if (windows_[g] == 0 && run_[g] == 0) return best;
      usable &= run_[g] >= i + 1 - first_visible(windows_[g], (i + 1) * block_size_, block_size_);
    }
    if (usable) best = i + 1;
  }
  return best;
}

int64_t KvBlocks::take_prefix(Sequence& seq) {
  if (!prefix_caching_ || !seq.read_prefix_cache) return 0;
  int64_t limit = (seq.len() - 1) / block_size_;
  know_hashes(seq, limit);
  int64_t found = find_prefix(seq, limit);
  for (int g = 0; g < num_groups(); ++g) {
    int64_t first = first_visible(windows_[g], found * block_size_, block_size_);
    seq.first_block[g] = first;
    for (int64_t i = 0; i < found; ++i) {
      int32_t block = i < first ? -1 : pool_.find(seq.hashes[i], g);
      if (block >= 0) pool_.acquire(block);
      seq.blocks[g].push_back(block);
    }
  }
  return found * block_size_;
}

bool KvBlocks::extend(Sequence& seq, int64_t first, int64_t end) {
  for (int g = 0; g < num_groups(); ++g) {
    std::vector<int32_t>& blocks = seq.blocks[g];
    int64_t visible = std::min<int64_t>(first_visible(windows_[g], first, block_size_), blocks.size());
    for (int64_t i = visible; i-- > seq.first_block[g];) pool_.release(std::exchange(blocks[i], -1));
    seq.first_block[g] = std::max(seq.first_block[g], visible);
  }
  for (std::vector<int32_t>& blocks : seq.blocks) {
    while (static_cast<int64_t>(blocks.size()) < ceil_div(end, block_size_)) {
      int32_t block = pool_.alloc();
      if (block < 0) return false;
      blocks.push_back(block);
    }
  }
  return true;
}

void KvBlocks::publish(Sequence& seq, int64_t first, int64_t end) {
  if (!prefix_caching_ || first / block_size_ == end / block_size_) return;
  know_hashes(seq, end / block_size_);
  for (int g = 0; g < num_groups(); ++g)
    for (int64_t i = first / block_size_; i < end / block_size_; ++i)
      pool_.publish(seq.blocks[g][i], seq.hashes[i], g);
}

void KvBlocks::unpublish(Sequence& seq, int64_t first) {
  for (std::vector<int32_t>& blocks : seq.blocks)
    for (size_t i = first / block_size_; i < blocks.size(); ++i)
      if (blocks[i] >= 0) pool_.unpublish(blocks[i]);
}

void KvBlocks::release(Sequence& seq) {
  for (int g = 0; g < num_groups(); ++g) {
    std::vector<int32_t>& blocks = seq.blocks[g];
    while (!blocks.empty()) {
      if (blocks.back() >= 0) pool_.release(blocks.back());
      blocks.pop_back();
    }
    seq.first_block[g] = 0;
  }
  seq.computed = 0;
}

}  // namespace octavo
