// A step's attention becomes tiles (some tokens of one sequence), each of which is an item for every KV head;
// a tile that is long against the whole step is also split over keys at multiples of kSplitKeys, and whoever
// ends the last split of a tile's head merges them. Items are handed out longest first from one counter. The
// kernel makes the same bits of a row however it is tiled and split (kernels/table.h), so all of this is
// about time only.
#include "ops/attention.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "ops/fork.h"

namespace octavo {
namespace {

using kernels::Attend;
using kernels::AttentionKernel;
using kernels::kSplitKeys;

/// A fork pays from about this much work on: it costs 1 to 2 us and takes half of the time away on two cores.
constexpr double kForkNs = 5000;
/// Parts that a worker should find at least, so that the last ones to end leave the others idle only shortly.
constexpr int kItemsPerWorker = 4;
/// Splits need memory for what they merge; tiles past this much are left whole.
constexpr size_t kMaxPartialBytes = size_t{32} << 20;

struct Tile {
  int token, tokens;  ///< of the step
  int seq;
  int64_t key0, key1;
  int parts;           ///< 1: whole
  int first_item;      ///< its items are [kv_head][part]
  float* partials;     ///< [kv_heads][parts][rows][head_dim + 2]
  int32_t* remaining;  ///< [kv_heads] parts still running
  double ns;           ///< of one part
};

/// Estimated time of `rows` queries against `keys` of one KV head, as measured with AVX2 on a Zen 4 core: K
/// and V read at 15 GB/s, or the products at 85 GFLOP/s, and 300 ns for an item however short.
double estimate_ns(int64_t rows, int64_t keys, int head_dim, int element_bytes) {
  const double cells = static_cast<double>(keys) * head_dim;
  return cells * std::max(2 * element_bytes / 15.0, 4 * rows / 85.0) + 300;
}

class Plan {
 public:
  Plan(OpContext& ctx, const StepInput& step, const KvGroupStep& group, const LayerKv& kv,
       const AttentionShape& shape, const float* q, int64_t ldq, float* out, int64_t ldo)
      : ctx_(ctx),
        step_(step),
        group_(group),
        kv_(kv),
        shape_(shape),
        kernel_(ctx.kernels.attention[static_cast<int>(kv.format)]),
        q_(q),
        ldq_(ldq),
        out_(out),
        ldo_(ldo),
        heads_per_kv_(shape.heads / shape.kv_heads),
        tile_tokens_(std::max(1, kernel_.tile_rows / heads_per_kv_)) {}

  void run() {
    make_tiles();
    split_tiles();
    std::sort(tiles_, tiles_ + num_tiles_,
              [](const Tile& a, const Tile& b) { return a.ns != b.ns ? a.ns > b.ns : a.token < b.token; });
    for (int i = 0; i < num_tiles_; ++i) {
      tiles_[i].first_item = num_items_;
      num_items_ += tiles_[i].parts * shape_.kv_heads;
    }
    const int workers = total_ns_ < kForkNs ? 1 : std::min(ctx_.team.size(), num_items_);
    scratch_bytes_ = kernel_.scratch_bytes(max_rows(), shape_.head_dim, kv_.view.block_size);
    scratch_ = ctx_.workspace.alloc<std::byte>(scratch_bytes_ * workers);
    if (workers == 1) {
      for (int i = 0; i < num_items_; ++i) run_item(i, scratch_);
      return;
    }
    std::atomic<int> next{0};
    ctx_.team.run(workers, [&](int piece, int) {
      for (int i; (i = next.fetch_add(1, std::memory_order_relaxed)) < num_items_;)
        run_item(i, scratch_ + piece * scratch_bytes_);
    });
  }

 private:
  int max_rows() const { return tile_tokens_ * heads_per_kv_; }

  int element_bytes() const {
    return static_cast<int>(kv_.view.head_bytes / (2 * int64_t{kv_.view.block_size} * shape_.head_dim));
  }

  void make_tiles() {
    int count = 0;
    for (int s = 0; s < step_.num_seqs; ++s)
      count += (step_.query_start[s + 1] - step_.query_start[s] + tile_tokens_ - 1) / tile_tokens_;
    tiles_ = ctx_.workspace.alloc<Tile>(count);
    for (int s = 0; s < step_.num_seqs; ++s) {
      const int begin = step_.query_start[s], end = step_.query_start[s + 1];
      for (int t = begin; t < end; t += tile_tokens_) {
        Tile& tile = tiles_[num_tiles_++] = Tile{};
        tile.token = t;
        tile.tokens = std::min(tile_tokens_, end - t);
        tile.seq = s;
        const int64_t position = step_.positions[t];
        const int64_t first = shape_.window ? std::max<int64_t>(0, position + 1 - shape_.window) : 0;
        tile.key0 = first / kSplitKeys * kSplitKeys;
        tile.key1 = position + tile.tokens;
        tile.parts = 1;
        tile.ns =
            estimate_ns(tile.tokens * heads_per_kv_, tile.key1 - first, shape_.head_dim, element_bytes());
        total_ns_ += tile.ns * shape_.kv_heads;
      }
    }
  }

  void split_tiles() {
    if (ctx_.team.size() == 1 || total_ns_ < kForkNs) return;
    const double limit = total_ns_ / (ctx_.team.size() * kItemsPerWorker);
    size_t used = 0;
    for (int i = 0; i < num_tiles_; ++i) {
      Tile& tile = tiles_[i];
      const int parts = static_cast<int>((tile.key1 - tile.key0 + kSplitKeys - 1) / kSplitKeys);
      const size_t floats = partial_floats(tile) * parts * shape_.kv_heads;
      if (tile.ns <= limit || parts == 1 || used + floats * sizeof(float) > kMaxPartialBytes) continue;
      used += floats * sizeof(float);
      tile.parts = parts;
      tile.partials = ctx_.workspace.alloc<float>(floats);
      tile.remaining = ctx_.workspace.alloc<int32_t>(shape_.kv_heads);
      std::fill_n(tile.remaining, shape_.kv_heads, parts);
      tile.ns /= parts;
    }
  }

  size_t partial_floats(const Tile& tile) const {
    return static_cast<size_t>(tile.tokens) * heads_per_kv_ * (shape_.head_dim + 2);
  }

  void run_item(int index, void* scratch) const {
    const Tile& tile = *(std::upper_bound(tiles_, tiles_ + num_tiles_, index,
                                          [](int i, const Tile& t) { return i < t.first_item; }) -
                         1);
    const int head = (index - tile.first_item) / tile.parts, part = (index - tile.first_item) % tile.parts;
    const int64_t column = int64_t{head} * heads_per_kv_ * shape_.head_dim;
    Attend a = {
        .q = q_ + tile.token * ldq_ + column,
        .ldq = ldq_,
        .out = out_ + tile.token * ldo_ + column,
        .ldo = ldo_,
        .partial = nullptr,
        .tokens = tile.tokens,
        .group = heads_per_kv_,
        .position = step_.positions[tile.token],
        .key0 = tile.key0,
        .key1 = tile.key1,
        .block_table = group_.block_tables + tile.seq * group_.max_blocks,
        .kv = kv_.view,
        .kv_head = head,
        .scale = shape_.scale,
        .window = shape_.window,
        .softcap = shape_.softcap,
        .sinks = shape_.sinks ? shape_.sinks + int64_t{head} * heads_per_kv_ : nullptr,
        .scratch = scratch,
    };
    if (tile.parts == 1) return kernel_.attend(a);
    const int64_t stride = static_cast<int64_t>(partial_floats(tile));
    float* partials = tile.partials + stride * tile.parts * head;
    a.partial = partials + stride * part;
    a.key0 += part * kSplitKeys;
    a.key1 = std::min(a.key0 + kSplitKeys, a.key1);
    kernel_.attend(a);
    if (std::atomic_ref<int32_t>(tile.remaining[head]).fetch_sub(1, std::memory_order_acq_rel) == 1)
      kernel_.merge(partials, stride, tile.parts, tile.tokens * heads_per_kv_, shape_.head_dim, a.sinks,
                    a.group, a.out, a.ldo);
  }

  OpContext& ctx_;
  const StepInput& step_;
  const KvGroupStep& group_;
  const LayerKv& kv_;
  const AttentionShape& shape_;
  const AttentionKernel& kernel_;
  const float* q_;
  int64_t ldq_;
  float* out_;
  int64_t ldo_;
  int heads_per_kv_, tile_tokens_;
  Tile* tiles_ = nullptr;
  int num_tiles_ = 0, num_items_ = 0;
  double total_ns_ = 0;  ///< of all items
  size_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
};

}  // namespace

void write_kv(OpContext& ctx, const StepInput& step, const KvGroupStep& group, const LayerKv& kv,
              const float* k, int64_t ldk, const float* v, int64_t ldv) {
  const kernels::KvView& view = kv.view;
  const AttentionKernel& kernel = ctx.kernels.attention[static_cast<int>(kv.format)];
  for_ranges(
      ctx.team, step.num_tokens, int64_t{2} * view.kv_heads * view.head_dim, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int32_t block = group.slots[t] / view.block_size, offset = group.slots[t] % view.block_size;
          for (int h = 0; h < view.kv_heads; ++h)
            kernel.write(k + t * ldk + int64_t{h} * view.head_dim, v + t * ldv + int64_t{h} * view.head_dim,
                         view.base + (int64_t{block} * view.kv_heads + h) * view.head_bytes, offset,
                         view.block_size, view.head_dim);
        }
      });
}

void attention(OpContext& ctx, const StepInput& step, const KvGroupStep& group, const LayerKv& kv,
               const AttentionShape& shape, const float* q, int64_t ldq, float* out, int64_t ldo) {
  OCTAVO_CHECK(shape.heads % shape.kv_heads == 0 && shape.kv_heads == kv.view.kv_heads &&
                   shape.head_dim == kv.view.head_dim,
               shape.heads, " heads, ", shape.kv_heads, " KV heads of ", shape.head_dim);
  if (step.num_tokens == 0) return;
  Workspace::Scope scope(ctx.workspace);
  Plan(ctx, step, group, kv, shape, q, ldq, out, ldo).run();
}

size_t attention_workspace(const OpContext& ctx, const AttentionShape& shape, int max_tokens, int max_seqs,
                           int64_t max_context) {
  const int group = shape.heads / shape.kv_heads;
  size_t scratch = 0;
  int tile_rows = group;
  for (const AttentionKernel& kernel : ctx.kernels.attention) {
    if (!kernel.attend) continue;
    const int rows = std::max(1, kernel.tile_rows / group) * group;
    tile_rows = std::max(tile_rows, rows);
    scratch = std::max(scratch, kernel.scratch_bytes(rows, shape.head_dim, kernel.block_step));
  }
  // At most kItemsPerWorker tile heads a worker are above the limit of split_tiles(), so that many tiles are
  // split.
  const size_t splits = static_cast<size_t>((max_context + kSplitKeys - 1) / kSplitKeys);
  const size_t split_tiles =
      std::min<size_t>(max_tokens, static_cast<size_t>(kItemsPerWorker) * ctx.team.size());
  const size_t split_rows =
      std::min<size_t>(static_cast<size_t>(max_tokens) * shape.heads, split_tiles * tile_rows);
  const size_t partials =
      std::min(kMaxPartialBytes, splits * split_rows * (shape.head_dim + 2) * sizeof(float));
  const size_t tiles = static_cast<size_t>(max_seqs) + max_tokens;
  const size_t counters = split_tiles * (shape.kv_heads * sizeof(int32_t) + 2 * Workspace::kAlign);
  return tiles * sizeof(Tile) + partials + counters + (scratch + Workspace::kAlign) * ctx.team.size() +
         4 * Workspace::kAlign;
}

}  // namespace octavo
