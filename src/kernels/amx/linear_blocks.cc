// Weight-only formats by TDPBF16PS. Decoded weights and activations are rounded to BF16, as at the
// avx512_bf16 level. A tile of A is 16 outputs by a chunk of 32 inputs, just as they are decoded, one of B a
// chunk of 16 rows of x, which prepare() interleaves; so sums come out transposed, once for all of k.
//   prepared   blocks of 16 rows: [k / 32][16 pairs of inputs][16 rows][2], absent rows zero
//   decoded    [2][chunks][16 outputs][32], in L1 while the rows pass
//   sums       [blocks of rows][2] tiles of [16 outputs][16 rows]
//
// Static bound (Sapphire Rapids) with 192 rows and 4-bit weights: 32 outputs by 8 chunks are 256 chunks to
// decode, 8 to 10 cycles each, beside 12 x 16 tile products of 16 cycles (3072): 55 to 60 % of the tile unit,
// more with more rows, and four times what VDPBF16PS could do.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;
constexpr char kSuffix[] = " amx 32x32, rounded to bf16";
#include "kernels/avx512/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/avx512/bf16_parts.inl"

#include "kernels/generic/packed_blocks.inl"

#include "kernels/amx/tile_ops.inl"

constexpr int kRowStep = kTileRows, kColumns = 2 * kTileRows;
constexpr int64_t kDepthChunks = 8;  ///< decoded together: 16 KB
constexpr int64_t kBlockTiles = 32;  ///< blocks of rows that share a decoding: their sums are 64 KB

int64_t block_bytes(const LinearShape& shape) { return shape.k / kChunk * kTileSize; }

size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>((m + kTileRows - 1) / kTileRows * block_bytes(shape));
}

/// 16 x 16 lanes: lane j of vector i to lane i of vector j.
OCTAVO_INLINE void transpose(__m512i (&v)[16]) {
  __m512i t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      v[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
      v[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
    }
    // v[4 a + j] now has column 4 q + j of rows 4 a to 4 a + 3 in its quarter q.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i even = _mm512_shuffle_i32x4(v[j], v[4 + j], 0x88),
                  odd = _mm512_shuffle_i32x4(v[j], v[4 + j], 0xdd),
                  even2 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0x88),
                  odd2 = _mm512_shuffle_i32x4(v[8 + j], v[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(even, even2, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(even, even2, 0xdd);
    t[4 + j] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
    t[12 + j] = _mm512_shuffle_i32x4(odd, odd2, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) v[i] = t[i];
}

/// Chunk `c` of `count` rows of x to a tile of B.
void prepare_chunk(const float* x, int64_t ldx, int count, char* to) {
  __m512i rows[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    Vec part[1] = {zero()};
    if (r < count) parts_of({load(x + r * ldx), load(x + r * ldx + kLanes)}, part);
    rows[r] = _mm512_castps_si512(part[0].v);
  }
  transpose(rows);
  for (int pair = 0; pair < kTileRows; ++pair) _mm512_store_si512(to + pair * kTileBytes, rows[pair]);
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  for (int64_t row = m0; row < m1; row += kTileRows) {
    char* to = static_cast<char*>(prepared) + row / kTileRows * block_bytes(shape);
    const int count = static_cast<int>(m1 - row < kTileRows ? m1 - row : kTileRows);
    for (int64_t c = 0; c < shape.k / kChunk; ++c)
      prepare_chunk(x + row * ldx + c * kChunk, ldx, count, to + c * kTileSize);
  }
}
constexpr decltype(LinearKernel::prepare) kPrepare = prepare;

using Decoded = Element[2][kDepthChunks][kTileRows][kChunk];

/// Adds `chunks` chunks of 32 outputs for R blocks of rows to their sums, which are zero where `first`.
template <int R>
void multiply(const Decoded& weights, const char* x, int64_t ldx, int64_t chunks, bool first, char* sums) {
  each<2 * R>([&]<int T>() {
    if (first)
      zero_tile<T>();
    else
      load_tile<T>(sums + T * kTileSize, kTileBytes);
  });
  for (int64_t c = 0; c < chunks; ++c, x += kTileSize) {
    each<2>([&]<int a>() { load_tile<4 + a>(weights[a][c], kTileBytes); });
    each<R>([&]<int r>() {
      load_tile<6 + r>(x + r * ldx, kTileBytes);
      each<2>([&]<int a>() { DotBF16::dot<2 * r + a, 4 + a, 6 + r>(); });
    });
  }
  each<2 * R>([&]<int T>() { store_tile<T>(sums + T * kTileSize, kTileBytes); });
}

/// y of 16 outputs from n on and `count` rows += a tile of sums.
void add_tile(const LinearRun& a, int64_t n, int64_t row, int count, const char* sums) {
  const int columns = static_cast<int>(a.n1 - n < kTileRows ? a.n1 - n : kTileRows);
  __m512i v[16];
  for (int i = 0; i < 16; ++i) v[i] = _mm512_load_si512(sums + i * kTileBytes);
  transpose(v);
  for (int r = 0; r < count; ++r) {
    float* y = a.y + (row + r) * a.ldy + n;
    store_first(y, load_first(y, columns) + Vec{_mm512_castsi512_ps(v[r])}, columns);
  }
}

/// Rows [m0, m1), at most kBlockTiles blocks of them, for kColumns outputs from n on.
template <class F>
void run_outputs(const LinearRun& a, int64_t n, int64_t m0, int64_t m1) {
  alignas(64) char sums[kBlockTiles * 2 * kTileSize];
  alignas(64) Decoded decoded;
  const int64_t chunks = a.shape.k / kChunk, ldx = block_bytes(a.shape),
                blocks = (m1 - m0 + kTileRows - 1) / kTileRows;
  const char* x = static_cast<const char*>(a.prepared) + m0 / kTileRows * ldx;
  for (int64_t first = 0; first < chunks; first += kDepthChunks) {
    const int64_t end = chunks - first < kDepthChunks ? chunks : first + kDepthChunks;
    decode<F>(a, n, kColumns, first, end, [&](int c, int64_t chunk, const Vec(&parts)[1]) {
      store_part(decoded[c / kTileRows][chunk][c % kTileRows], parts[0]);
    });
    const char* from = x + first * kTileSize;
    int64_t b = 0;
    for (; b + 2 <= blocks; b += 2)
      multiply<2>(decoded, from + b * ldx, ldx, end - first, first == 0, sums + 2 * b * kTileSize);
    if (b < blocks)
      multiply<1>(decoded, from + b * ldx, ldx, end - first, first == 0, sums + 2 * b * kTileSize);
  }
  for (int64_t b = 0; b < blocks; ++b)
    for (int half = 0; half < 2 && n + half * kTileRows < a.n1; ++half) {
      const int64_t row = m0 + b * kTileRows, left = m1 - row;
      add_tile(a, n + half * kTileRows, row, static_cast<int>(left < kTileRows ? left : kTileRows),
               sums + (2 * b + half) * kTileSize);
    }
}

template <class F>
void run(const LinearRun& a) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) config.row_bytes[t] = kTileBytes, config.rows[t] = kTileRows;
  load_config(config);
  start_y(a);
  constexpr int64_t kRows = kBlockTiles * kTileRows;
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += kRows)
    for (int64_t n = a.n0; n < a.n1; n += kColumns)
      run_outputs<F>(a, n, m0, m0 + kRows < a.m1 ? m0 + kRows : a.m1);
  release_tiles();
}

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::amx
