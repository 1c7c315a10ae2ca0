#include "engine/kv_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "engine/kv_blocks.h"

namespace octavo {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", bytes / (size_t{1} << 30));
  return text;
}

int layers_per_region(const ModelInfo& model) {
  int layers = 0;
  for (const KvGroupSpec& group : model.kv_groups) layers = std::max(layers, group.layers);
  return layers;
}

size_t budget(const KvSizing& s) {
  if (s.explicit_bytes > s.available)
    throw Error("the KV cache was given ", gib(s.explicit_bytes),
                " (--kv-cache-memory-bytes, VLLM_CPU_KVCACHE_SPACE) but only ", gib(s.available),
                " of memory are left (", s.limit, ")");
  if (s.explicit_bytes) return s.explicit_bytes;
  double share = static_cast<double>(s.available) * s.fraction - static_cast<double>(s.reserved);
  return share > 0 ? static_cast<size_t>(share) : 0;
}

void check_override(const KvSizing& s, int64_t most_blocks) {
  if (s.num_blocks_override < 0)
    throw Error("--num-gpu-blocks-override ", s.num_blocks_override, ": expected at least 1, or 0 for none");
  if (s.num_blocks_override > most_blocks)
    throw Error("--num-gpu-blocks-override ", s.num_blocks_override, " is more than the ", most_blocks,
                " blocks of ", s.block_size, " tokens that can be addressed");
  double bytes = static_cast<double>(s.num_blocks_override) * static_cast<double>(s.block_bytes);
  if (bytes > static_cast<double>(s.available))
    throw Error("--num-gpu-blocks-override ", s.num_blocks_override, " needs ", gib(bytes), " but only ",
                gib(s.available), " of memory are left (", s.limit, ")");
}

int64_t peak(const KvSizing& s, int64_t len) {
  return kv_peak_blocks(s.windows, len, s.block_size, s.max_chunk);
}

}  // namespace

KvPlan plan_kv_cache(const KvSizing& s) {
  int64_t wanted_len = s.max_model_len > 0 ? s.max_model_len : s.model_max_len;
  // Slots, block * block_size + offset, are 32 bits wide.
  const int64_t most_blocks = std::numeric_limits<int32_t>::max() / s.block_size;
  if (s.num_blocks_override != 0) {
    check_override(s, most_blocks);
    return {s.num_blocks_override, wanted_len};
  }
  size_t bytes = budget(s);
  int64_t blocks = static_cast<int64_t>(bytes / s.block_bytes);
  // One sequence of its own may take shorter chunks where window and chunk together do not fit.
  int64_t longest = kv_longest(s.windows, blocks, s.block_size, s.block_size);
  if (longest < wanted_len) {
    if (s.max_model_len >= 0 || longest < 1)
      throw Error("max_model_len ", wanted_len, " needs ",
                  gib(static_cast<double>(kv_peak_blocks(s.windows, wanted_len, s.block_size, s.block_size)) *
                      s.block_bytes),
                  " of KV cache, but there are ", gib(bytes), "; the longest that fits is ", longest,
                  ": lower --max-model-len (or -1 for the longest), or raise --kv-cache-memory-bytes");
    wanted_len = longest;
  }
  if (!s.explicit_bytes) blocks = std::min(blocks, s.max_num_seqs * peak(s, wanted_len));
  return {std::min(blocks, most_blocks), wanted_len};
}

size_t kv_block_bytes(const ModelInfo& model, const kernels::AttentionKernel& kernel, int block_size) {
  return static_cast<size_t>(layers_per_region(model)) * model.kv_heads *
         kernel.head_bytes(block_size, model.head_dim);
}

KvCache::KvCache(const ModelInfo& model, const kernels::KernelTable& kernels, kernels::KvFormat format,
                 int block_size, int64_t num_blocks) {
  const kernels::AttentionKernel& kernel = kernels.attention[static_cast<int>(format)];
  int64_t head_bytes = static_cast<int64_t>(kernel.head_bytes(block_size, model.head_dim));
  region_block_bytes_ = static_cast<size_t>(model.kv_heads) * head_bytes;
  size_t region = (num_blocks * region_block_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  int layers = layers_per_region(model);
  bytes_ = layers * region + kHugePage;
  void* memory =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("cannot map ", gib(bytes_), " for the KV cache");
  madvise(memory, bytes_, MADV_HUGEPAGE);
  base_ = static_cast<std::byte*>(memory);
  std::byte* aligned = base_ + (kHugePage - reinterpret_cast<uintptr_t>(base_) % kHugePage) % kHugePage;
  store_.format = format;
  for (int i = 0; i < layers; ++i)
    store_.regions.push_back({aligned + i * region, head_bytes, model.kv_heads, block_size, model.head_dim});
}

KvCache::~KvCache() { munmap(base_, bytes_); }

void KvCache::clear_block(int32_t block) {
  for (const kernels::KvView& view : store_.regions)
    std::memset(view.base + block * region_block_bytes_, 0, region_block_bytes_);
}

}  // namespace octavo
