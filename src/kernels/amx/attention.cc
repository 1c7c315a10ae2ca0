// BF16 KV by TDPBF16PS: sixteen rows by sixteen keys or dims, over 32 dims or keys a step. Queries and
// weights are rounded to BF16, as at the avx512_bf16 level; scores, maxima, sums and the weights' sum stay
// float32. K and V lie in memory as tiles want them: pairs of dims (of keys) in 32 bits, a line of 64 bytes
// 16 of them.
//
// Static bound (Sapphire Rapids): a TDPBF16PS takes 16 cycles, its line loads 8; 4 sums hide the 52 cycles
// until a sum can be used again. Scores of 16 rows by 64 keys over 64 dims: 8 of them, 128 cycles, beside 10
// tile loads (80) and 4 stores of sums (64 lines): the tile unit is the limit.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;

#include "kernels/generic/attention.inl"

#include "kernels/avx512/kv_bf16_dot.inl"

#include "kernels/amx/tile_ops.inl"

/// VectorProducts's interface. Tiles 0 to 3 are sums, 4 and 6 the two sides of a whole step, 5 and 7 those of
/// the last, shorter one over dims.
struct TileProducts {
  using Kv = KvBF16Dot;
  using Element = Kv::Element;
  static constexpr int kRows = kTileRows;
  static constexpr int kSpareRows = kTileRows - 1;  // the last group is computed as high as the others
  static constexpr int kStep = 32;                  // dims or keys
  static constexpr int kSums = 4;                   // tiles
  static constexpr int kStepTiles = kStep / kTile;  // of keys
  static constexpr int kPanelSteps = kPanel / kStep;
  static constexpr int64_t kRowBytes = kPanel * sizeof(float);  // of scores and weights
  static int64_t floats(const BlockLayout<Kv>& layout) { return int64_t{kPanel} / Kv::kPack * layout.v_dims; }

  const BlockLayout<Kv>& layout;
  float* copies;               ///< [kPanelSteps][kStep / 2][v_dims] packs
  const void* v[kPanelSteps];  ///< of the panel: pairs of keys, v_dims packs each
  int step0 = 0, step1 = 0;

  TileProducts(const BlockLayout<Kv>& l, int height, float* scratch) : layout(l), copies(scratch) {
    const int rest = layout.k_dims % kStep;
    TileConfig config;
    auto set = [&](int tile, int rows, int bytes) {
      config.rows[tile] = static_cast<uint8_t>(rows);
      config.row_bytes[tile] = static_cast<uint16_t>(bytes);
    };
    for (int t = 0; t < kSums; ++t) set(t, height, kTileBytes);
    set(4, height, kTileBytes);
    set(6, kTileRows, kTileBytes);
    if (rest) {
      set(5, height, rest * 2);
      set(7, rest / 2, kTileBytes);
    }
    load_config(config);
  }
  ~TileProducts() { release_tiles(); }
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  int64_t query_index(int d, int r, int) const { return int64_t{r} * layout.k_dims + d; }

  void scores(int, const float* q, const Panel<Kv>& panel, bool first, float* to) const {
    int tile = panel.tile0;
    for (; tile + kSums <= panel.tile1; tile += kSums) score_tiles<kSums>(q, panel, tile, first, to);
    for (; tile < panel.tile1; ++tile) score_tiles<1>(q, panel, tile, first, to);
  }

  /// Tiles [tile, tile + N) of the panel's keys. The panel's first group prefetches the next panel.
  template <int N>
  void score_tiles(const float* q, const Panel<Kv>& panel, int tile, bool first, float* to) const {
    constexpr int64_t kStepElements = int64_t{kStep} * kTile;  // of K
    const int64_t q_bytes = int64_t{layout.k_dims} * static_cast<int64_t>(sizeof(float));
    each<N>([]<int T>() { zero_tile<T>(); });
    const int steps = layout.k_dims / kStep;
    for (int s = 0; s < steps; ++s) {
      load_tile<4>(q + s * kStep / Kv::kPack, q_bytes);
      each<N>([&]<int T>() {
        load_tile<6>(panel.k[tile + T] + s * kStepElements, kTileBytes);
        DotBF16::dot<T, 4, 6>();
        if (first) prefetch(panel.next_k[tile + T] + s * kStepElements, kStep / 2, kTileBytes);
      });
    }
    if (layout.k_dims % kStep) {
      load_tile<5>(q + steps * kStep / Kv::kPack, q_bytes);
      each<N>([&]<int T>() {
        load_tile<7>(panel.k[tile + T] + steps * kStepElements, kTileBytes);
        DotBF16::dot<T, 5, 7>();
        if (first)
          prefetch(panel.next_k[tile + T] + steps * kStepElements, layout.k_dims % kStep / 2, kTileBytes);
      });
    }
    each<N>([&]<int T>() { store_tile<T>(to + (tile + T) * kTile, kRowBytes); });
  }

  static void prefetch(const Element* from, int lines, int64_t stride) {
    for (int i = 0; i < lines; ++i)
      prefetch_l2(reinterpret_cast<const Element*>(reinterpret_cast<const char*>(from) + i * stride));
  }

  /// Whole steps of V are read where they lie, others are put together: where the item sees not all of their
  /// keys (the rest may be NaN), or in small blocks. A step is always 32 keys, so that a row's bits do not
  /// depend on the block size.
  void begin_values(const Panel<Kv>& panel, float* weights, int rows) {
    step0 = panel.tile0 / kStepTiles;
    step1 = (panel.tile1 + kStepTiles - 1) / kStepTiles;
    for (int t = step0 * kStepTiles; t < step1 * kStepTiles; ++t)
      if (t < panel.tile0 || t >= panel.tile1)  // has no weights yet
        for (int r = 0; r < rows; ++r)
          _mm256_storeu_ps(weights + int64_t{r} * kPanel + t * (kTile / Kv::kPack), _mm256_setzero_ps());
    for (int s = step0; s < step1; ++s) {
      const int begin = s * kStep, tile = s * kStepTiles;
      const bool whole = panel.first <= begin && begin + kStep <= panel.last;
      if (whole && panel.v[tile + 1] == panel.v[tile] + int64_t{kTile} * layout.v_dims)
        v[s] = panel.v[tile];
      else
        v[s] = put_together(panel, s);
    }
  }

  const void* put_together(const Panel<Kv>& panel, int s) const {
    const int64_t packs = layout.v_dims;
    float* to = copies + s * (kStep / Kv::kPack) * packs;
    for (int key = s * kStep; key < (s + 1) * kStep; key += Kv::kPack, to += packs) {
      const bool none = key + 1 < panel.first || key >= panel.last;
      const Element* from = none ? nullptr : panel.v[key / kTile] + key % kTile * packs;
      for (int64_t d = 0; d < packs; d += kLanes)
        store(to + d, none ? zero()
                           : Kv::members_between(Kv::packs(from + d * Kv::kPack), panel.first - key,
                                                 panel.last - key));
    }
    return copies + s * (kStep / Kv::kPack) * packs;
  }

  void values(int count, const float* weights, const float* alpha, const Panel<Kv>& panel, bool first,
              float* acc) const {
    for (int r = 0; r < count; ++r)
      for (int d = 0; d < layout.v_dims; d += kLanes) {
        float* at = acc + int64_t{r} * layout.v_dims + d;
        store(at, load(at) * set1(alpha[r]));
      }
    int dim = 0;
    for (; dim + kSums * kTile <= layout.v_dims; dim += kSums * kTile)
      value_tiles<kSums>(weights, panel, dim, first, acc);
    for (; dim < layout.v_dims; dim += kTile) value_tiles<1>(weights, panel, dim, first, acc);
  }

  /// Dims [dim, dim + N * 16).
  template <int N>
  void value_tiles(const float* weights, const Panel<Kv>& panel, int dim, bool first, float* acc) const {
    const int64_t v_bytes = int64_t{layout.v_dims} * static_cast<int64_t>(sizeof(float));
    each<N>([&]<int T>() { load_tile<T>(acc + dim + T * kTile, v_bytes); });
    for (int s = step0; s < step1; ++s) {
      load_tile<4>(weights + s * kStep / Kv::kPack, kRowBytes);
      each<N>([&]<int T>() {
        load_tile<6>(static_cast<const float*>(v[s]) + dim + T * kTile, v_bytes);
        DotBF16::dot<T, 4, 6>();
        if (!first) return;
        for (int t = most(s * kStepTiles, panel.tile0); t < least((s + 1) * kStepTiles, panel.tile1); ++t)
          prefetch(panel.next_v[t] + (dim + T * kTile) * Kv::kPack, kTile / Kv::kPack, v_bytes);
      });
    }
    each<N>([&]<int T>() { store_tile<T>(acc + dim + T * kTile, v_bytes); });
  }
};
}  // namespace

constinit const AttentionKernel attention_bf16 =
    attention_kernel<KvBF16Dot, TileProducts>("bf16 amx 16x16, queries and weights rounded to bf16");

}  // namespace octavo::kernels::amx
