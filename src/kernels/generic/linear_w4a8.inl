// W4A8 tiles of M rows by P panels (int4.inl), for any IVec. Before the include, the folder's dot4.inl
// defines, besides vec.h's and ivec.inl's operations:
//   low_nibbles<kFull>(const char*), high_nibbles<kFull>(const char*)    kLanes columns' four weights each,
//   as
//                                                          bytes; kFull: sums fill the registers
//   load_bytes(const char*)                                as many that were unpacked before
//   dot_value(const uint32_t* x), dot_into(IVec& sum, value, weights)    the products of one unit of a row
//   dot_row(IVec* sum, const uint32_t* x, const IVec* weights)    the same with all of a panel's kVecs
//                                                          vectors of weights
//   widen(IVec sum)                                        to int32 lanes: the identity unless kPairs
//   kKeepResults    there are registers for results besides sums
//   kUnpackAhead    weights of a large batch are unpacked to bytes before its tiles read them
//   kMaxRows, kWidePanels, kAccumulators, panels_of(m), kAheadRows: as in linear_float.inl
//
// Where registers are few, the float results of a tile lie in memory (on the stack, in L1): they hold the
// integer sums, and a group ends with one load, one multiply-add and one store for each vector of outputs.
//   result = fold over groups, in rising order, of fma(float(exact group sum), scale, result)
//   y = result * row scale + (addend + bias)

#include "kernels/generic/prefetch.inl"

struct Tile {
  const char* panel;  ///< first panel
  int64_t panel_stride;
  const char* row;  ///< first prepared row
  int64_t row_stride;
  Layout layout;
  bool half, zeros;
  float* y;
  int64_t ldy;
  const float* bias;
  bool add;
  int columns;
  int64_t turns;  ///< of the loop over a panel, whole ones
  Ahead ahead;
};

template <int P>
using Results = float[P * kPanel];  ///< of one row
template <int M, int P>
struct Totals {  ///< integer sums of a group that has several chunks or zero points
  alignas(64) int32_t of[M][P * kPanel];
};

template <int M, int P>
using Sums = IVec[M][P * kVecs];

OCTAVO_INLINE Vec scale_of(const Tile& t, const char* head, int v) {
  const char* scales = head + v / kVecs * t.panel_stride;
  const int at = v % kVecs * kLanes;
  return t.half ? load_half(reinterpret_cast<const uint16_t*>(scales) + at)
                : load(reinterpret_cast<const float*>(scales) + at);
}

/// totals -= zero point * sum of the row's group.
template <int M, int P>
void take_zeros(const Tile& t, const char* head, int64_t g, Totals<M, P>& totals) {
  for (int v = 0; v < P * kVecs; ++v) {
    const char* zeros = head + v / kVecs * t.panel_stride + t.layout.zeros;
    const IVec zero = load_int16(reinterpret_cast<const int16_t*>(zeros) + v % kVecs * kLanes);
    for (int r = 0; r < M; ++r) {
      const int32_t* row_sums = reinterpret_cast<const int32_t*>(
          t.row + r * t.row_stride + sizeof(RowHeader) + t.layout.groups * t.layout.chunks * kRecord * 4);
      int32_t* total = totals.of[r] + v * kLanes;
      store_int(total, load_int(total) - zero * set_int(row_sums[g]));
    }
  }
}

#include "kernels/generic/outputs.inl"

template <int M, int P>
void finish(const Tile& t, const Results<P>* results) {
  store_outputs<M, P * kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) {
          const RowHeader* row = reinterpret_cast<const RowHeader*>(t.row + r * t.row_stride);
          return load(results[r] + v * kLanes) * broadcast(&row->scale);
        };
      });
}

#include "kernels/generic/cursor.inl"

/// The products of one chunk. Sums start anew, or go on where `fresh` is false.
template <int M, int P, bool Plain>
OCTAVO_INLINE void run_chunk(Cursor<M>& at, Sums<M, P>& sum, bool fresh) {
  at.hide();
  at.ahead.template turn<M, P, kChunkBytes>(at.panel_stride);
  auto unit = [&](int r, int u) __attribute__((always_inline)) {
    return reinterpret_cast<const uint32_t*>(at.row(r) + u * 4);
  };
  auto weight = [&](int p, int quad, int v) __attribute__((always_inline)) {
    const char* from = at.weights + p * at.panel_stride + v * kLanes * 4;
    if (Plain) return load_bytes(from + quad * kPanel * 4);
    from += quad / 2 * kPanel * 4;
    constexpr bool kFull = M * P * kVecs == kAccumulators;
    return quad % 2 ? high_nibbles<kFull>(from) : low_nibbles<kFull>(from);
  };
  if (fresh)
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
      for (int v = 0; v < P * kVecs; ++v) sum[r][v] = dot_value(unit(r, 0));
#pragma GCC unroll 8
  for (int quad = 0; quad < kChunk / 4; ++quad)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      IVec weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) weights[v] = weight(p, quad, v);
      if constexpr (M == 1) {  // one value for all panels
        const IVec value = dot_value(unit(0, 1 + quad));
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) dot_into(sum[0][p * kVecs + v], value, weights[v]);
        continue;
      }
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) dot_row(sum[r] + p * kVecs, unit(r, 1 + quad), weights);
    }
  at.weights += Plain ? 2 * kChunkBytes : kChunkBytes;
  at.advance_rows(kRecord * 4);
}

/// A group of several chunks, or with zero points: its sums pass through memory.
template <int M, int P, bool Plain>
OCTAVO_INLINE void run_chunks(const Tile& t, Cursor<M>& at, Totals<M, P>& totals) {
  Sums<M, P> sum;
  int64_t c = 0;
  do {
    run_chunk<M, P, Plain>(at, sum, kPairs || c == 0);
    if (!kPairs && c + 1 < t.layout.chunks) continue;
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
      for (int v = 0; v < P * kVecs; ++v) {
        int32_t* total = totals.of[r] + v * kLanes;
        const IVec wide = widen(sum[r][v]);
        store_int(total, kPairs && c > 0 ? wide + load_int(total) : wide);
      }
  } while (++c < t.layout.chunks);
}

/// Groups of one chunk without zero points: sums go from register to result.
template <int M, int P, bool Plain>
OCTAVO_INLINE void run_single_chunks(const Tile& t, int64_t count, const char* head, Cursor<M>& at,
                                     Results<P>* results) {
  Vec kept[M][P * kVecs];
  auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int v = 0; v < P * kVecs; ++v)
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) f(results[r] + v * kLanes, kept[r][v], r, v);
  };
  if constexpr (kKeepResults)
    each([](float* result, Vec& here, int, int) __attribute__((always_inline)) { here = load(result); });
  for (int64_t g = 0; g < count; ++g, head += t.layout.group_bytes) {
    if constexpr (!kKeepResults)
      __asm__ volatile("" : : "r"(results) : "memory");  // or GCC keeps each result in a second place, too
    if (!Plain) at.weights += t.layout.body;
    Sums<M, P> sum;
    run_chunk<M, P, Plain>(at, sum, true);
    Vec scale;
    each([&](float* result, Vec& here, int r, int v) __attribute__((always_inline)) {
      if (r == 0) scale = scale_of(t, head, v);
      const Vec value = to_float(widen(sum[r][v]));
      if constexpr (kKeepResults)
        fma_into(here, value, scale);
      else
        store(result, fma(value, scale, load(result)));
    });
  }
  if constexpr (kKeepResults)
    each([](float* result, Vec& here, int, int) __attribute__((always_inline)) { store(result, here); });
}

/// Adds groups [g0, g1) to the results of M rows. Plain: their unpacked weights.
template <int M, int P, bool Plain>
[[gnu::noinline]] void run_groups(const Tile& t, int64_t g0, int64_t g1, const char* plain,
                                  Results<P>* results) {
  const char* head = t.panel + g0 * t.layout.group_bytes;
  Cursor<M> at{Plain ? plain : head, t.ahead, {}, t.panel_stride, t.row_stride};
  for (int i = 0; i < (M + 2) / 3; ++i)
    at.x[i] = t.row + 3 * i * t.row_stride + sizeof(RowHeader) + g0 * t.layout.chunks * kRecord * 4;
  if (t.layout.chunks == 1 && !t.zeros) return run_single_chunks<M, P, Plain>(t, g1 - g0, head, at, results);
  Totals<M, P> totals;
  for (int64_t g = g0; g < g1; ++g, head += t.layout.group_bytes) {
    if (!Plain) at.weights += t.layout.body;
    run_chunks<M, P, Plain>(t, at, totals);
    if (t.zeros) take_zeros<M, P>(t, head, g, totals);
    for (int v = 0; v < P * kVecs; ++v) {
      const Vec scale = scale_of(t, head, v);
      for (int r = 0; r < M; ++r) {
        float* result = results[r] + v * kLanes;
        store(result, fma(to_float(load_int(totals.of[r] + v * kLanes)), scale, load(result)));
      }
    }
  }
}

template <int M, int P>
void tile(const Tile& t) {
  alignas(64) Results<P> results[M] = {};
  run_groups<M, P, false>(t, 0, t.layout.groups, nullptr, results);
  finish<M, P>(t, results);
}

Tile tile_of(const LinearRun& a) {
  Tile t{};
  t.layout = layout(a.shape);
  t.panel_stride = t.layout.panel_bytes;
  t.row_stride = t.layout.row_bytes;
  t.turns = t.layout.groups * t.layout.chunks;
  t.half = a.shape.half_scales;
  t.zeros = a.shape.has_zeros;
  t.ldy = a.ldy;
  t.add = a.accumulate;
  return t;
}

#include "kernels/generic/panel_tiles.inl"

// A large batch: a block of a panel's groups is unpacked to bytes once, which then stay in L1 while all rows
// pass; a mask, a shift and their loads in every tile would cost a sixth of its time on AVX2. Results wait on
// the stack, so that blocks need not end where anything else does.
constexpr int64_t kBlockRows = 192, kBlockDepth = 1024;

/// Chunks of groups [g0, g1) of one panel.
void unpack(const Tile& t, int64_t g0, int64_t g1, char* to) {
  for (int64_t g = g0; g < g1; ++g) {
    const char* from = t.panel + g * t.layout.group_bytes + t.layout.body;
    for (int64_t unit = 0; unit < t.layout.chunks * kChunk / 8; ++unit, from += kPanel * 4)
      for (int half = 0; half < 2; ++half)
        for (int v = 0; v < kVecs; ++v, to += kLanes * 4)
          store_int(reinterpret_cast<int32_t*>(to), half ? high_nibbles<false>(from + v * kLanes * 4)
                                                         : low_nibbles<false>(from + v * kLanes * 4));
  }
}

template <int M = kMaxRows>
void block_rows(int rows, const Tile& t, int64_t g0, int64_t g1, const char* plain, Results<1>* results) {
  if constexpr (M > 1)
    if (rows != M) return block_rows<M - 1>(rows, t, g0, g1, plain, results);
  run_groups<M, 1, true>(t, g0, g1, plain, results);
}

template <int M = kMaxRows>
void finish_rows(int rows, const Tile& t, const Results<1>* results) {
  if constexpr (M > 1)
    if (rows != M) return finish_rows<M - 1>(rows, t, results);
  finish<M, 1>(t, results);
}

/// Rows [m0, m1), at most kBlockRows of them, for one panel.
void run_panel(const LinearRun& a, Tile& t, int64_t n, int64_t m0, int64_t m1) {
  alignas(64) Results<1> results[kBlockRows];
  alignas(64) char plain[kBlockDepth * kPanel];
  const int64_t rows = m1 - m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  __builtin_memset(results, 0, rows * sizeof(Results<1>));
  const int64_t step = kBlockDepth / (t.layout.chunks * kChunk);
  for (int64_t g0 = 0, g1; g0 < t.layout.groups; g0 = g1) {
    g1 = g0 + step < t.layout.groups ? g0 + step : t.layout.groups;
    unpack(t, g0, g1, plain);
    const bool last = g1 == t.layout.groups;
    const char* next = t.panel + g1 * t.layout.group_bytes;  // of this panel or the one behind it
    const Ahead ahead =
        Ahead::of(next, next, (g1 - g0) * t.layout.group_bytes, (g1 - g0) * t.layout.chunks, rows, tiles);
    each_tile(
        0, rows, tiles, [&](int64_t i, int64_t row, int count) __attribute__((always_inline)) {
          place_rows(a, n, m0 + row, t);
          t.ahead = ahead.tile(i);
          if (last) fetch_outputs(t.y, t.ldy, count, kPanel);  // finish() was 6 % of an AVX2 prefill, is 2 %
          block_rows(count, t, g0, g1, plain, results + row);
          if (last) finish_rows(count, t, results + row);
        });
  }
}

void run_block(const LinearRun& a) {
  Tile t = tile_of(a);
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += kBlockRows)
    for (int64_t n = a.n0; n < a.n1; n += kPanel) {
      place_columns(a, n, 1, t);
      run_panel(a, t, n, m0, m0 + kBlockRows < a.m1 ? m0 + kBlockRows : a.m1);
    }
}

void run(const LinearRun& a) {
  if constexpr (kUnpackAhead)
    if (a.m1 - a.m0 > 2 * kMaxRows && a.shape.group <= kBlockDepth) return run_block(a);
  run_panels(a);
}
