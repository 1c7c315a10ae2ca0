// Tiles over unpacked blocks (int8_blocks.inl) for any IVec: M rows by a panel. All batches unpack 512 inputs of
// a panel and run their tiles over them, also one row: that is then bound by memory still. Before the include,
// the folder's dot4.inl defines
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

/// Adds `groups` groups to the results of M rows. Not inlined: see linear_float.inl.
template <int kGroup, bool kMin, int M>
[[gnu::noinline]] void run_groups(const Unpacked& w, const char* row, int64_t row_stride, int groups,
                                  Results* results) {
  Vec kept[M][kVecs];
  auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int v = 0; v < kVecs; ++v)
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) f(r, v, kept[r][v], results[r] + v * kLanes);
  };
  if constexpr (kKeepResults)
    each([](int, int, Vec& here, const float* there) __attribute__((always_inline)) { here = load(there); });
  Cursor<M> at{w.codes, {}, {}, 0, row_stride};
#pragma GCC unroll 64
  for (int i = 0; i < (M + 2) / 3; ++i) at.x[i] = row + 3 * i * row_stride;
  for (int g = 0; g < groups; ++g) {
    if constexpr (!kKeepResults) __asm__ volatile("" : : "r"(results) : "memory");
    at.hide();
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
      for (int v = 0; v < kVecs; ++v) weights[v] = load_bytes(at.weights + quad * kQuadBytes + v * kLanes * 4);
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
void run_rows(int rows, const Unpacked& w, const char* row, int64_t row_stride, int groups, Results* results) {
  if constexpr (M > 1)
    if (rows != M) return run_rows<kGroup, kMin, M - 1>(rows, w, row, row_stride, groups, results);
  run_groups<kGroup, kMin, M>(w, row, row_stride, groups, results);
}

template <int M = kMaxRows>
void finish_rows(int rows, const Tile& t, const Results* results) {
  if constexpr (M > 1)
    if (rows != M) return finish_rows<M - 1>(rows, t, results);
  store_outputs<M, kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) { return load(results[r] + v * kLanes); };
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
  Tile t{nullptr, a.ldy, a.bias ? a.bias + n : nullptr, a.accumulate,
         static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel)};
  __builtin_memset(results, 0, rows * sizeof(Results));
  for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
    c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
    unpack<F>(panel, c0, c1, unpacked);
    // What is unpacked next, of this panel or the one behind it: each tile fetches its share. (One or two rows
    // leave it to the hardware: prefetch.inl.)
    const char* next = chunk_at<F>(panel, c1) - F::kHeadBytes;
    const int64_t part = rows < kAheadRows ? 0 : ((c1 - c0) * kChunkBytes<F> / tiles + 63) / 64 * 64;
    each_tile(
        0, rows, tiles, [&](int64_t i, int64_t first, int count) __attribute__((always_inline)) {
          for (int64_t line = 0; line < part; line += 64) __builtin_prefetch(next + i * part + line, 0, 3);
          t.y = a.y + (m0 + first) * a.ldy + n;
          if (c1 == chunks) fetch_outputs(t.y, t.ldy, count, t.columns);
          run_rows<F::kGroup, F::kMin>(count, unpacked, row + first * stride, stride,
                                       static_cast<int>(c1 - c0) * (kChunk / F::kGroup), results + first);
          if (c1 == chunks) finish_rows(count, t, results + first);
        });
    row += (c1 - c0) * (kChunk / F::kGroup) * kRecordBytes<F::kGroup>;
  }
}

template <class F>
void run(const LinearRun& a) {
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += kBlockRows)
    for (int64_t n = a.n0; n < a.n1; n += kPanel)
      run_panel<F>(a, n, m0, m0 + kBlockRows < a.m1 ? m0 + kBlockRows : a.m1);
}
