// Tiles of M rows by a panel of block formats (panel_blocks.inl). A batch unpacks kDepth inputs of a panel,
// whatever the format, and runs its tiles over them. One or two rows read the weights as they lie, in one
// even stream: with bursts of reading between products memory gave 70 % of what it can. Before the include,
// the units of int8_units.inl or float_units.inl, and in the folder
//   kVecs, dot_row(Sum* sum, const uint32_t* x, const Sum* weights)    the products of a unit of a row
//   kKeepResults              there are registers for results besides sums; else they wait in memory
//   kMaxRows, kAheadRows      as in linear_float.inl
//   kCachedBytes              of x pass each panel together: in a core's L2, if that counts
//   kDirectGroups             groups whose sums grow side by side where weights are read as they lie

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
    // 6 bits a weight: of bytes the last quarter is left to the hardware.
    at.ahead.template turn<M, 1, kGroup * 12>(0);
    auto header = [&](int r) __attribute__((always_inline)) {
      return reinterpret_cast<const GroupHeader*>(at.row(r));
    };
    Sum sum[M][kVecs];
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
      for (int v = 0; v < kVecs; ++v) sum[r][v] = start_of(header(r));
#pragma GCC unroll 32
    for (int u = 0; u < kGroup / kUnit; ++u) {
      Sum weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) weights[v] = unpacked_unit(at.weights, u, v);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r)
        dot_row(sum[r], reinterpret_cast<const uint32_t*>(at.row(r) + sizeof(GroupHeader)) + u, weights);
    }
    Vec a, b;
    each([&](int r, int v, Vec& here, float* there) __attribute__((always_inline)) {
      if (r == 0) {
        a = load(w.a[g] + v * kLanes);
        if constexpr (kMin) b = load(w.b[g] + v * kLanes);
      }
      Vec result = fma(value_of(sum[r][v], header(r)), a, kKeepResults ? here : load(there));
      if constexpr (kMin) result = fma(b, broadcast(&header(r)->sum), result);
      if constexpr (kKeepResults)
        here = result;
      else
        store(there, result);
    });
    at.weights += kGroup * kPanel * kCodeBytes;
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

/// Adds C chunks to the results of M rows, whose records stand at `row`. Sums of several groups grow side by
/// side: those of one would wait for each other's products (two of one row of W4A16 took a fifth less time on
/// AVX2; four did not fit its registers).
template <class F, int M, int C>
OCTAVO_INLINE void direct_chunks(const char* const (&heads)[C], const char* const (&chunks)[C],
                                 const char* row, int64_t row_stride, Vec (&result)[M][kVecs]) {
  constexpr int kOfChunk = kChunk / F::kGroup, kGroups = C * kOfChunk;
  auto header = [&](int g, int r) __attribute__((always_inline)) {
    return reinterpret_cast<const GroupHeader*>(row + r * row_stride + g * kRecordBytes<F::kGroup>);
  };
  Sum sum[kGroups][M][kVecs];
#pragma GCC unroll 64
  for (int i = 0; i < kGroups * M * kVecs; ++i)
    sum[i / (M * kVecs)][i / kVecs % M][i % kVecs] = start_of(header(i / (M * kVecs), i / kVecs % M));
#pragma GCC unroll 32
  for (int u = 0; u < F::kGroup / kUnit; ++u)
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) {
      Sum weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        weights[v] =
            packed_unit<F>(chunks[g / kOfChunk] + F::kScaleBytes, g % kOfChunk * (F::kGroup / kUnit) + u, v);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r)
        dot_row(sum[g][r], reinterpret_cast<const uint32_t*>(header(g, r) + 1) + u, weights);
    }
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      Vec a, b;
      group_scales<F>(heads[g / kOfChunk], chunks[g / kOfChunk], g % kOfChunk, v * kLanes, a, b);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        result[r][v] = fma(value_of(sum[g][r][v], header(g, r)), a, result[r][v]);
        if constexpr (F::kMin) result[r][v] = fma(b, broadcast(&header(g, r)->sum), result[r][v]);
      }
    }
}

/// M rows from m0 on, for the panel of columns from n on.
template <class F, int M>
[[gnu::noinline]] void direct_panel(const LinearRun& a, int64_t n, int64_t m0, const Tile& t) {
  // Chunks of 512 bytes one after another: two at once are streams that the hardware's prefetchers lose (Q8_0
  // from memory 12 instead of 35 GB/s).
  constexpr int kOfChunk = kChunk / F::kGroup, kSide = F::kLow == 8 ? 1 : kDirectGroups / M;
  constexpr int kAtOnce = kSide > kOfChunk ? kSide / kOfChunk : 1;  ///< chunks
  constexpr int64_t kRecords = kChunk / F::kGroup * kRecordBytes<F::kGroup>;
  const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk;
  const char* row = static_cast<const char*>(a.prepared) + m0 * stride;
  Vec result[M][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < M * kVecs; ++i) result[i / kVecs][i % kVecs] = zero();
  const char *heads[kAtOnce], *at[kAtOnce];
  int count = 0;
  each_chunk<F>(
      panel, 0, chunks, a.shape, [&](const char* head, const char* chunk) __attribute__((always_inline)) {
        heads[count] = head, at[count] = chunk;
        if (++count < kAtOnce) return;
        direct_chunks<F, M, kAtOnce>(heads, at, row, stride, result);
        row += kAtOnce * kRecords;
        count = 0;
      });
  for (int i = 0; i < count; ++i, row += kRecords)
    direct_chunks<F, M, 1>({heads[i]}, {at[i]}, row, stride, result);
  store_outputs<M, kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) { return result[r][v]; };
      });
}

constexpr int kRowPadding = 0;
constexpr int64_t kBlockRows = 192;

/// Rows [m0, m1), at most kBlockRows of them, for the panel of columns from n on.
template <class F>
void run_panel(const LinearRun& a, int64_t n, int64_t m0, int64_t m1) {
  constexpr int kDepthChunks = kDepth / kChunk;
  alignas(64) Results results[kBlockRows];
  Unpacked unpacked;
  const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk;
  const int64_t bytes = panel_bytes<F>(a.shape);
  const char* row = static_cast<const char*>(a.prepared) + m0 * stride;
  const int64_t rows = m1 - m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  Tile t{a.y + m0 * a.ldy + n, a.ldy, a.bias ? a.bias + n : nullptr, a.accumulate,
         static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel)};
  if (rows == 1) return direct_panel<F, 1>(a, n, m0, t);
  if (rows <= kDirectRows) return direct_panel<F, kDirectRows>(a, n, m0, t);
  __builtin_memset(results, 0, rows * sizeof(Results));
  for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
    c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
    unpack<F>(panel, c0, c1, a.shape, unpacked);
    const int groups = static_cast<int>(c1 - c0) * (kChunk / F::kGroup);
    const char* next = panel + c1 * bytes / chunks;  // in this panel or the one behind it
    const int64_t part = (c1 - c0) * bytes / chunks / tiles;
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
void run_format(const LinearRun& a) {
  const int64_t cached = kCachedBytes / row_bytes<F::kGroup>(a.shape) / kMaxRows * kMaxRows;
  const int64_t rows = cached > kBlockRows ? kBlockRows : cached < 4 * kMaxRows ? 4 * kMaxRows : cached;
  for (int64_t m0 = a.m0; m0 < a.m1; m0 += rows)
    for (int64_t n = a.n0; n < a.n1; n += kPanel) run_panel<F>(a, n, m0, m0 + rows < a.m1 ? m0 + rows : a.m1);
}

template <class F>
void run(const LinearRun& a) {
  run_symmetric<F>(a, [&]<class G>() { run_format<G>(a); });
}
