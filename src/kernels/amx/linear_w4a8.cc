// W4A8 on int8 tiles. A block of a panel is unpacked once into int8 tiles in L1 (16 KB), which all rows of
// the run then pass; the integer sums of a group leave their tile through L1 and are folded into float sums
// that stay in 16 registers over the block. Bounds for 16 rows of 16 columns and a group of 32 (128): the
// tile product 16 (32) cycles, loads 20 (40), the sums' stores 16, multiply-adds and conversions 16: 400
// (800) products a cycle, where VPDPBUSD with the same folding has 100 (120). One row is bound by unpacking,
// 16 bytes of weights a cycle, which is more than memory gives.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;

constexpr bool kPairs = false;

#include "kernels/avx512/ivec.inl"

#include "kernels/generic/int4.inl"

#include "kernels/amx/tiles.inl"

// Prepared rows, unlike those of int4.inl without what vector products start at, so that a step of k is one
// tile: RowHeader, int8 [groups][padded], int32 sums of the groups. A group ends with zeros.
struct Rows {
  int64_t padded;  ///< bytes of a group
  int64_t step;    ///< bytes of a tile: 64, or 32 where groups are no longer
  int64_t sums;    ///< offset of the sums
  int64_t stride;  ///< an odd number of lines: see Operands::lda
};

Rows rows_of(const Layout& l) {
  Rows r;
  r.step = l.chunks == 1 ? kChunk : kTileBytes;
  r.padded = (l.chunks * kChunk + r.step - 1) / r.step * r.step;
  r.sums = static_cast<int64_t>(sizeof(RowHeader)) + l.groups * r.padded;
  r.stride = (r.sums + l.groups * 4 + 63) / 64 * 64 | 64;
  return r;
}

size_t tile_prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * rows_of(layout(shape)).stride);
}

void prepare_tile_row(const float* x, const LinearShape& shape, const Layout& l, const Rows& rows, char* to) {
  RowHeader* header = reinterpret_cast<RowHeader*>(to);
  const RowScale scale = row_scale(x, shape.k, shape);
  header->scale = scale.finite ? scale.scale : __builtin_nanf("");
  uint8_t* q = reinterpret_cast<uint8_t*>(header + 1);
  int32_t* sums = reinterpret_cast<int32_t*>(to + rows.sums);
  for (int64_t g = 0; g < l.groups; ++g, q += rows.padded, x += shape.group) {
    const int64_t count = scale.finite ? shape.group : 0;
    sums[g] = quantise_bytes(x, count, scale, 0, q);
    for (int64_t kk = count; kk < rows.padded; ++kk) q[kk] = 0;
  }
}

void prepare_tiles(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
                   void* prepared) {
  const Layout l = layout(shape);
  const Rows rows = rows_of(l);
  for (int64_t row = m0; row < m1; ++row)
    prepare_tile_row(x + row * ldx, shape, l, rows, static_cast<char*>(prepared) + row * rows.stride);
}

/// 32 k of a panel to eight lines of a tile.
OCTAVO_INLINE void unpack(const char* chunk, char* to) {
  const __m512i nibble = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
  for (int u = 0; u < 4; ++u) {
    const __m512i x = _mm512_loadu_si512(chunk + u * 64);
    _mm512_store_si512(to + u * 128, _mm512_sub_epi8(_mm512_and_si512(x, nibble), eight));
    _mm512_store_si512(to + u * 128 + 64,
                       _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(x, 4), nibble), eight));
  }
}

constexpr int kBlockLines = 256;  ///< of unpacked weights: 16 KB, 1024 k

/// A panel's pass over the rows. Steps of k are counted from the first group's to the last's.
struct Pass {
  Layout layout;
  Rows rows;
  int64_t steps;  ///< of a group
  bool half;
  const char* panel;
  const char* x;  ///< first row of a tile
  int64_t height;
  char* weights;  ///< unpacked steps [s0, s1)
  int64_t s0, s1;
  float* results;  ///< of the tile [16][16]
  char* totals;    ///< of the tile: integer sums of a group that goes on in the next block
  char* sums;      ///< four tiles of scratch

  const char* group(int64_t g) const { return panel + g * layout.group_bytes; }
};

void unpack_block(const Pass& p) {
  char* to = p.weights;
  const int64_t chunks = p.rows.step / kChunk;
  for (int64_t s = p.s0; s < p.s1; ++s) {
    const char* body = p.group(s / p.steps) + p.layout.body;
    for (int64_t c = s % p.steps * chunks, end = c + chunks; c < end; ++c, to += 8 * 64)
      if (c < p.layout.chunks) unpack(body + c * kChunkBytes, to);  // past it x is zero
  }
}

/// result = fma(float(exact group sum), scale, result) for R rows.
template <int R, bool kZeros>
OCTAVO_INLINE void fold_group(const Pass& p, int64_t g, const char* sums, Vec (&result)[R]) {
  const char* group = p.group(g);
  const Vec scale = p.half ? load_half(reinterpret_cast<const uint16_t*>(group))
                           : load(reinterpret_cast<const float*>(group));
  IVec zero;
  if constexpr (kZeros) zero = load_int16(reinterpret_cast<const int16_t*>(group + p.layout.zeros));
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    IVec total = load_int(reinterpret_cast<const int32_t*>(sums) + r * kPanel);
    if constexpr (kZeros) {
      const int64_t row = r < p.height ? r : p.height - 1;  // the rest of R is not used
      total = total -
              zero * set_int(reinterpret_cast<const int32_t*>(p.x + row * p.rows.stride + p.rows.sums)[g]);
    }
    result[r] = fma(to_float(total), scale, result[r]);
  }
}

/// One tile of rows over the block's steps. Four tiles of sums in turn: a group need not wait for the one
/// before.
template <int R, bool kZeros>
void run_tile(const Pass& p) {
  Vec result[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) result[r] = p.s0 == 0 ? zero() : load(p.results + r * kPanel);
  const int64_t tile_bytes = p.rows.step * kPanel;
  const char* a = p.x + sizeof(RowHeader) + p.s0 * p.rows.step;
  const char* b = p.weights;
  int64_t g = p.s0 / p.steps;
  int64_t s = p.s0;
  while (s < p.s1)
    each<4>([&]<int T>() __attribute__((always_inline)) {
      if (s >= p.s1) return;
      if (s == g * p.steps)
        zero_tile<T>();
      else
        load_tile<T>(p.totals, kTileBytes);
      const int64_t group_end = (g + 1) * p.steps, end = group_end < p.s1 ? group_end : p.s1;
      for (; s < end; ++s, a += p.rows.step, b += tile_bytes) {
        load_tile<4 + T % 2>(a, p.rows.stride);
        load_tile<6 + T % 2>(b, kTileBytes);
        DotInt8::dot<T, 4 + T % 2, 6 + T % 2>();
      }
      if (end < group_end) {
        store_tile<T>(p.totals, kTileBytes);
        return;
      }
      store_tile<T>(p.sums + T * kTileSize, kTileBytes);
      fold_group<R, kZeros>(p, g++, p.sums + T * kTileSize, result);
    });
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) store(p.results + r * kPanel, result[r]);
}

void run_tile(const Pass& p, bool zeros) {
  if (p.height <= 4)
    zeros ? run_tile<4, true>(p) : run_tile<4, false>(p);
  else
    zeros ? run_tile<16, true>(p) : run_tile<16, false>(p);
}

/// y = result * row scale + (addend + bias) for row `row` of the run and one panel.
void finish_row(const LinearRun& run, int64_t panel, int64_t row, float scale, const float* result) {
  const int64_t n = panel * kPanel;
  const int count = static_cast<int>(run.n1 - n < kPanel ? run.n1 - n : kPanel);
  float* y = run.y + row * run.ldy + n;
  const Vec bias = run.bias ? load_first(run.bias + n, count) : zero();
  const Vec start = run.accumulate ? add(load_first(y, count), bias) : bias;
  store_first(y, add(start, load(result) * set1(scale)), count);
}

/// Rows [m0, m0 + rows) and all panels of the run.
void run_block(const LinearRun& run, int64_t m0, int64_t rows) {
  alignas(64) char weights[kBlockLines * 64], totals[kBlockTiles * kTileSize], sums[4 * kTileSize];
  alignas(64) float results[kBlockTiles][kTileRows * kPanel];
  Pass p;
  p.layout = layout(run.shape);
  p.rows = rows_of(p.layout);
  p.steps = p.rows.padded / p.rows.step;
  p.half = run.shape.half_scales;
  p.weights = weights;
  p.sums = sums;
  const int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  p.height = (rows + tiles - 1) / tiles;
  const char* x = static_cast<const char*>(run.prepared) + m0 * p.rows.stride;
  auto first_row = [&](int64_t tile) {
    return tile * p.height < rows - p.height ? tile * p.height : rows - p.height;
  };
  load_config(config_of(p.height, p.rows.step));
  const int64_t all = p.layout.groups * p.steps, block = kBlockLines * 4 / p.rows.step;
  for (int64_t panel = run.n0 / kPanel; panel * kPanel < run.n1; ++panel) {
    p.panel = static_cast<const char*>(run.packed) + panel * p.layout.panel_bytes;
    for (p.s0 = 0; p.s0 < all; p.s0 = p.s1) {
      p.s1 = all - p.s0 < block ? all : p.s0 + block;
      unpack_block(p);
      for (int64_t t = 0; t < tiles; ++t) {
        p.x = x + first_row(t) * p.rows.stride;
        p.results = results[t];
        p.totals = totals + t * kTileSize;
        run_tile(p, run.shape.has_zeros);
      }
    }
    for (int64_t t = 0; t < tiles; ++t)
      for (int64_t r = t * p.height; r < (t + 1) * p.height && r < rows; ++r)
        finish_row(run, panel, m0 + r, reinterpret_cast<const RowHeader*>(x + r * p.rows.stride)->scale,
                   results[t] + (r - first_row(t)) * kPanel);
  }
}

void run_w4a8(const LinearRun& run) {
  constexpr int64_t kRows = kBlockTiles * kTileRows;
  for (int64_t m0 = run.m0; m0 < run.m1; m0 += kRows)
    run_block(run, m0, run.m1 - m0 < kRows ? run.m1 - m0 : kRows);
  release_tiles();
}
}  // namespace

constinit const LinearKernel linear_w4a8 = {
    .name = "w4a8 amx 16x16",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .prepared_bytes = tile_prepared_bytes,
    .prepare = prepare_tiles,
    .run = run_w4a8,
};

}  // namespace octavo::kernels::amx
