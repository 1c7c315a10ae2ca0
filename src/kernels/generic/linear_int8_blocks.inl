// Tiles of M rows by a panel over GGUF's blocks (int8_blocks.inl), for any IVec. A batch unpacks 512 inputs
// of a panel, whatever the format, and runs its tiles over them. One or two rows read the weights as they
// lie, in one even stream: with bursts of reading between products memory gave 70 % of what it can. Before
// the include, the folder's dot4.inl defines
//   kVecs, dot_row(IVec* sum, const uint32_t* x, const IVec* weights), widen(IVec), load_bytes(const char*)
//   kKeepResults              there are registers for results besides sums; else they wait in memory
//   kMaxRows, kAheadRows      as in linear_float.inl

#include "kernels/generic/prefetch.inl"

struct Tile {
  float* y;
  int64_t ldy;
  const float* bias;
  bool add;
  int columns;
};

#include "kernels/generic/outputs.inl"

#include "kernels/generic/cursor.inl"

using Results = float[kPanel];  ///< of one row
constexpr int kDirectRows = 2;  ///< at most, that read weights as they lie; each_tile() makes no tiles of
                                ///< fewer than 3 of more

/// Adds `groups` groups to the results of M rows. Not inlined: see linear_float.inl.
template <int kGroup, bool kMin, int M>
[[gnu::noinline]] void run_groups(const Unpacked& w, Ahead ahead, const char* row, int64_t row_stride,
                                  int groups, Results* results) {
  Vec kept[M][kVecs];
  auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int v = 0; v < kVecs; ++v)
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) f(r, v, kept[r][v], results[r] + v * kLanes);
  };
  if constexpr (kKeepResults)
    each([](int, int, Vec& here, const float* there) __attribute__((always_inline)) { here = load(there); });
  Cursor<M> at{w.codes, ahead, {}, 0, row_stride};
#pragma GCC unroll 64
  for (int i = 0; i < (M + 2) / 3; ++i) at.x[i] = row + 3 * i * row_stride;
  for (int g = 0; g < groups; ++g) {
    if constexpr (!kKeepResults) __asm__ volatile("" : : "r"(results) : "memory");
    at.hide();
    at.ahead.template turn<M, 1, kGroup * 12>(0);
    auto header = [&](int r) __attribute__((always_inline)) {
      return reinterpret_cast<const GroupHeader*>(at.row(r));
    };
    IVec sum[M][kVecs];
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
      for (int v = 0; v < kVecs; ++v) sum[r][v] = set_int(header(r)->start);
#pragma GCC unroll 8
    for (int quad = 0; quad < kGroup / 4; ++quad) {
      IVec weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        weights[v] = load_bytes(at.weights + quad * kQuadBytes + v * kLanes * 4);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r)
        dot_row(sum[r], reinterpret_cast<const uint32_t*>(at.row(r) + sizeof(GroupHeader)) + quad, weights);
    }
    Vec a, b;
    each([&](int r, int v, Vec& here, float* there) __attribute__((always_inline)) {
      if (r == 0) {
        a = load(w.a[g] + v * kLanes);
        if constexpr (kMin) b = load(w.b[g] + v * kLanes);
      }
      const Vec value = to_float(widen(sum[r][v])) * broadcast(&header(r)->scale);
      Vec result = fma(value, a, kKeepResults ? here : load(there));
      if constexpr (kMin) result = fma(b, broadcast(&header(r)->sum), result);
      if constexpr (kKeepResults)
        here = result;
      else
        store(there, result);
    });
    at.weights += kGroup * kPanel;
    at.advance_rows(kRecordBytes<kGroup>);
  }
  if constexpr (kKeepResults)
    each([](int, int, Vec& here, float* there) __attribute__((always_inline)) { store(there, here); });
}

template <int kGroup, bool kMin, int M = kMaxRows>
void run_rows(int rows, const Unpacked& w, Ahead ahead, const char* row, int64_t row_stride, int groups,
              Results* results) {
  if constexpr (M > kDirectRows + 1)
    if (rows != M) return run_rows<kGroup, kMin, M - 1>(rows, w, ahead, row, row_stride, groups, results);
  run_groups<kGroup, kMin, M>(w, ahead, row, row_stride, groups, results);
}

template <int M = kMaxRows>
void finish_rows(int rows, const Tile& t, const Results* results) {
  if constexpr (M > kDirectRows + 1)
    if (rows != M) return finish_rows<M - 1>(rows, t, results);
  store_outputs<M, kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) { return load(results[r] + v * kLanes); };
      });
}

OCTAVO_INLINE IVec as_weights(Codes x) {
  IVec out;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}

/// Adds a chunk to the results of M rows, whose records stand at `row`.
template <class F, int M>
OCTAVO_INLINE void direct_chunk(const char* super, const char* chunk, const char* row, int64_t row_stride,
                                Vec (&result)[M][kVecs]) {
#pragma GCC unroll 2
  for (int g = 0; g < kChunk / F::kGroup; ++g, row += kRecordBytes<F::kGroup>) {
    auto header = [&](int r) __attribute__((always_inline)) {
      return reinterpret_cast<const GroupHeader*>(row + r * row_stride);
    };
    IVec sum[M][kVecs];
#pragma GCC unroll 8
    for (int i = 0; i < M * kVecs; ++i) sum[i / kVecs][i % kVecs] = set_int(header(i / kVecs)->start);
#pragma GCC unroll 8
    for (int quad = 0; quad < F::kGroup / 4; ++quad) {
      IVec weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        weights[v] =
            as_weights(quad_codes<F>(chunk + F::kScaleBytes, g * F::kGroup / 4 + quad, v * kLanes * 4));
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r)
        dot_row(sum[r], reinterpret_cast<const uint32_t*>(header(r) + 1) + quad, weights);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      Vec a, b;
      group_scales<F>(super, chunk, g, v * kLanes, a, b);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const Vec value = to_float(widen(sum[r][v])) * broadcast(&header(r)->scale);
        result[r][v] = fma(value, a, result[r][v]);
        if constexpr (F::kMin) result[r][v] = fma(b, broadcast(&header(r)->sum), result[r][v]);
      }
    }
  }
}

/// M rows from m0 on, for the panel of columns from n on.
template <class F, int M>
[[gnu::noinline]] void direct_panel(const LinearRun& a, int64_t n, int64_t m0, const Tile& t) {
  const char* super = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape);
  const char* row = static_cast<const char*>(a.prepared) + m0 * stride;
  Vec result[M][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < M * kVecs; ++i) result[i / kVecs][i % kVecs] = zero();
  for (int64_t s = a.shape.k / (F::kSuper * kChunk); s > 0; --s, super += kSuperBytes<F>)
    for (int i = 0; i < F::kSuper; ++i, row += kChunk / F::kGroup * kRecordBytes<F::kGroup>)
      direct_chunk<F, M>(super, super + F::kHeadBytes + i * kChunkBytes<F>, row, stride, result);
  store_outputs<M, kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) { return result[r][v]; };
      });
}

constexpr int64_t kBlockRows = 192;

/// Rows [m0, m1), at most kBlockRows of them, for the panel of columns from n on.
template <class F>
void run_panel(const LinearRun& a, int64_t n, int64_t m0, int64_t m1) {
  constexpr int kDepthChunks = kDepth / kChunk;
  alignas(64) Results results[kBlockRows];
  Unpacked unpacked;
  const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk;
  const char* row = static_cast<const char*>(a.prepared) + m0 * stride;
  const int64_t rows = m1 - m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  Tile t{a.y + m0 * a.ldy + n, a.ldy, a.bias ? a.bias + n : nullptr, a.accumulate,
         static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel)};
  if (rows == 1) return direct_panel<F, 1>(a, n, m0, t);
  if (rows <= kDirectRows) return direct_panel<F, kDirectRows>(a, n, m0, t);
  __builtin_memset(results, 0, rows * sizeof(Results));
  for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
    c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
    unpack<F>(panel, c0, c1, unpacked);
    const int groups = static_cast<int>(c1 - c0) * (kChunk / F::kGroup);
    const char* next = chunk_at<F>(panel, c1) - F::kHeadBytes;  // in this panel or the one behind it
    const int64_t part = (c1 - c0) / F::kSuper * kSuperBytes<F> / tiles;
    each_tile(
        0, rows, tiles, [&](int64_t i, int64_t first, int count) __attribute__((always_inline)) {
          t.y = a.y + (m0 + first) * a.ldy + n;
          if (c1 == chunks) fetch_outputs(t.y, t.ldy, count, t.columns);
          run_rows<F::kGroup, F::kMin>(count, unpacked, {next + i * part, (part + groups - 1) / groups, 0},
                                       row + first * stride, stride, groups, results + first);
          if (c1 == chunks) finish_rows(count, t, results + first);
        });
    row += groups * kRecordBytes<F::kGroup>;
  }
}

template <class F>
void run(const LinearRun& a) {
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += kBlockRows)
    for (int64_t n = a.n0; n < a.n1; n += kPanel)
      run_panel<F>(a, n, m0, m0 + kBlockRows < a.m1 ? m0 + kBlockRows : a.m1);
}
