// The memory of the KV cache: how large it may be, and the mapping of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/model.h"

namespace octavo {

struct KvSizing {
  size_t block_bytes = 0;        ///< of one block over all layers of a group
  std::vector<int64_t> windows;  ///< one entry a KV group, 0: full attention
  int block_size = 0;
  int64_t max_chunk = 0;  ///< most tokens of one sequence in a step
  int64_t max_num_seqs = 0;
  int64_t max_model_len = 0;  ///< -1: the longest that fits, at most the model's
  int64_t model_max_len = 0;
  size_t explicit_bytes = 0;  ///< 0: `fraction` of what is available
  double fraction = 0.92;
  size_t available = 0;             ///< what cgroup and machine have left, weights loaded
  size_t reserved = 0;              ///< of that, still needed for activations
  std::string limit;                ///< what rules `available`, for errors (MemoryLimits::text)
  int64_t num_blocks_override = 0;  ///< in place of a size; requests that do not fit are refused one by one
};

struct KvPlan {
  int64_t num_blocks;
  int64_t max_model_len;
};

/// Without an explicit size no more than max_num_seqs sequences of max_model_len can use. Throws Error with
/// the numbers when an explicit size is more than there is, or when a single sequence of max_model_len does
/// not fit.
KvPlan plan_kv_cache(const KvSizing& sizing);

/// Bytes of one block in all regions.
size_t kv_block_bytes(const ModelInfo& model, const kernels::AttentionKernel& kernel, int block_size);

/// Maps the regions; pages appear when first written, so an idle cache costs nothing.
class KvCache {
 public:
  KvCache(const ModelInfo& model, const kernels::KernelTable& kernels, kernels::KvFormat format,
          int block_size, int64_t num_blocks);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  const KvStore& store() const { return store_; }
  /// Zeroes a block in all regions: NaN left in it could reach a later owner through a masked product (0 *
  /// NaN).
  void clear_block(int32_t block);

 private:
  KvStore store_;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0, region_block_bytes_ = 0;
};

}  // namespace octavo
