// Weight-only formats by TDPBF16PS. A panel's codes are unpacked to BF16 pairs, which are tiles of B as they
// lie; a tile of A is 16 prepared rows. A group of 32 inputs (or 16) is one tile product, whose sums are then
// folded into the results of its rows; up to four chunks that share a scale are summed first, where nothing
// but the scale is to be applied. Four sums at once hide the product's latency.
//
// Static bound (Sapphire Rapids) for 16 rows by 16 columns by 32 inputs: tile product 16 cycles, loads of A
// and B 16, of sums 8 (of sum(x), with minima or codes of 5 and 6 bits, 8 more), stores 16, multiply-adds 8
// (16). Bound by loads: groups of 32 67 % (50 %) of the tile unit, of 128 89 %; VDPBF16PS takes 128 cycles.
// Unpacking, 2 to 3 operations a pair, adds 1/12 where all 192 rows of a piece pass it.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;

constexpr bool kSplitRows = true;
constexpr int kDepth = 512;
#include "kernels/avx512/bf16_blocks.inl"

#include "kernels/amx/tile_ops.inl"
constexpr char kSuffix[] = " amx 16x16, activations rounded to bf16";

constexpr int kAtOnce = 4;  ///< groups
constexpr int64_t kBlockRows = 192;

constexpr int kRowPadding = kTileRows - 1;  ///< tiles of A are read whole

using Sums = float[kTileRows][kPanel];

/// What codes are too much meets sum(x), as a minimum does.
template <class F>
constexpr bool kHasB = F::kMin || kTooMuch<F> != 0;

/// Up to kAtOnce sums of kOfSum groups each, of the rows from `row` on. Their chains of products take turns:
/// one alone would wait 52 cycles for each.
template <class F, int kOfSum>
OCTAVO_INLINE void multiply(const char* codes, const char* row, int64_t row_stride, int count, Sums* sums) {
  each<kAtOnce>([&]<int s>() __attribute__((always_inline)) { zero_tile<s>(); });
  each<kOfSum>([&]<int g>() __attribute__((always_inline)) {
    each<kAtOnce>([&]<int s>() __attribute__((always_inline)) {
      constexpr int kAt = s * kOfSum + g;
      if (s >= count) return;
      load_tile<4 + s % 2>(row + kAt * F::kGroup * 2, row_stride);
      load_tile<6 + s % 2>(codes + kAt * F::kGroup * kPanel * 2, kTileBytes);
      DotBF16::dot<s, 4 + s % 2, 6 + s % 2>();
    });
  });
  each<kAtOnce>([&]<int s>() __attribute__((always_inline)) {
    if (s < count) store_tile<s>(sums[s], kTileBytes);
  });
}

struct Rows {
  const char *elements, *headers;  ///< of the first row, at the first group
  int64_t stride;
  int count;
};

/// Adds `groups` groups to the results of rows, which wait in registers if kWhole: all of a tile.
template <class F, int kOfSum, bool kWhole>
void run_groups(const Unpacked& w, const Rows& rows, int groups, float (*results)[kPanel]) {
  alignas(64) Sums sums[kAtOnce];
  Vec kept[kTileRows];
  if constexpr (kWhole)
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) kept[r] = load(results[r]);
  for (int first = 0; first < groups; first += kAtOnce * kOfSum) {
    const int left = (groups - first) / kOfSum, count = left < kAtOnce ? left : kAtOnce;
    multiply<F, kOfSum>(w.codes + first * F::kGroup * kPanel * 2, rows.elements + first * F::kGroup * 2,
                        rows.stride, count, sums);
    for (int s = 0; s < count; ++s) {
      const int g = first + s * kOfSum;
      const Vec a = load(w.a[g]), least = F::kMin ? load(w.b[g]) : zero();
      const Vec b = kHasB<F> ? fma(a, set1(-kTooMuch<F>), least) : least;
      auto fold = [&](int r, Vec result) __attribute__((always_inline)) {
        const auto* header = reinterpret_cast<const GroupHeader*>(rows.headers + r * rows.stride) + g;
        result = fma(load(sums[s][r]), a, result);
        return kHasB<F> ? fma(b, broadcast(&header->sum), result) : result;
      };
      if constexpr (kWhole)
#pragma GCC unroll 16
        for (int r = 0; r < kTileRows; ++r) kept[r] = fold(r, kept[r]);
      else
        for (int r = 0; r < rows.count; ++r) store(results[r], fold(r, load(results[r])));
    }
  }
  if constexpr (kWhole)
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) store(results[r], kept[r]);
}

/// y = result + (addend + bias) of a panel's columns.
void finish(const LinearRun& a, int64_t n, int64_t row, const float* result) {
  const int columns = static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel);
  float* y = a.y + row * a.ldy + n;
  const Vec bias = a.bias ? load_first(a.bias + n, columns) : zero();
  const Vec start = a.accumulate ? add(load_first(y, columns), bias) : bias;
  store_first(y, add(start, load(result)), columns);
}

/// Rows [m0, m1), at most kBlockRows of them, for the panel of columns from n on.
template <class F, int kOfSum>
void run_panel(const LinearRun& a, int64_t n, int64_t m0, int64_t m1) {
  constexpr int kOfChunk = kChunk / F::kGroup, kDepthChunks = kDepth / kChunk;
  alignas(64) float results[kBlockRows][kPanel];
  Unpacked unpacked;
  const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk, rows = m1 - m0;
  const char* prepared = static_cast<const char*>(a.prepared) + m0 * stride;
  __builtin_memset(results, 0, rows * sizeof *results);
  for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
    c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
    unpack<F>(panel, c0, c1, a.shape, unpacked);
    const int groups = static_cast<int>(c1 - c0) * kOfChunk;
    for (int64_t r = 0; r < rows; r += kTileRows) {
      const char* row = prepared + r * stride;
      const char* headers = row + a.shape.k * static_cast<int64_t>(sizeof(Element));
      const Rows tile{row + c0 * kChunk * static_cast<int64_t>(sizeof(Element)),
                      headers + c0 * kOfChunk * static_cast<int64_t>(sizeof(GroupHeader)), stride,
                      static_cast<int>(rows - r < kTileRows ? rows - r : kTileRows)};
      if (tile.count == kTileRows)
        run_groups<F, kOfSum, true>(unpacked, tile, groups, results + r);
      else
        run_groups<F, kOfSum, false>(unpacked, tile, groups, results + r);
    }
  }
  for (int64_t r = 0; r < rows; ++r) finish(a, n, m0 + r, results[r]);
}

/// kOfSum: groups that one sum holds.
template <class F, int kOfSum>
void run_tiles(const LinearRun& a) {
  const int64_t rows = a.m1 - a.m0, height = rows < kTileRows ? rows : kTileRows;
  TileConfig config;
  for (int t = 0; t < 8; ++t) {  // sums in tiles 0 to 3, A in 4 and 5, B in 6 and 7
    const bool is_a = t == 4 || t == 5, is_b = t > 5;
    config.row_bytes[t] = static_cast<uint16_t>(is_a ? F::kGroup * 2 : kTileBytes);
    config.rows[t] = static_cast<uint8_t>(is_b ? F::kGroup / 2 : height);
  }
  load_config(config);
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += kBlockRows)
    for (int64_t n = a.n0; n < a.n1; n += kPanel)
      run_panel<F, kOfSum>(a, n, m0, m0 + kBlockRows < a.m1 ? m0 + kBlockRows : a.m1);
  release_tiles();
}

template <class F>
void run_format(const LinearRun& a) {
  if constexpr (F::kSuper == 0 && !kHasB<F>) {
    const int64_t chunks = super_chunks<F>(a.shape);
    if (chunks % 4 == 0) return run_tiles<F, 4>(a);
    if (chunks % 2 == 0) return run_tiles<F, 2>(a);
  }
  run_tiles<F, 1>(a);
}

template <class F>
void run(const LinearRun& a) {
  run_symmetric<F>(a, [&]<class G>() { run_format<G>(a); });
}

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::amx
