// Weight-only linear over packed rows (block_formats.inl), any format and Vec. The lanes of a sum run along
// k: each (row of x, output) has one Vec accumulator for 512 inputs, in rising k, whose lanes are then added
// to y in a fixed order (add_sums). One and two rows decode straight into registers; more rows decode eight
// outputs at a time to a float scratch in L1 and run register tiles over it. Both ways an output sees the
// same operations on the same numbers, so m, splits and tiles never change a bit of it.
//
// Rejected: sums of a chunk scaled at its end. It saves one multiplication in three of a single row, but
// a tile would need twice its accumulators, and rows must not depend on how many there are.
//
// Needs vec.h, codes.inl, block_formats.inl and, before the include:
//   kTileRows, kTileColumns   the register tile over the scratch (columns 4 or 8)

constexpr int kDepth = 512, kDepthChunks = kDepth / kChunk;  ///< inputs that are summed before y is touched
constexpr int kColumns = 8;                                  ///< outputs decoded together: 16 KB of scratch

template <class F>
int64_t super_bytes(int chunks, const LinearShape& shape) {
  return F::header_bytes(chunks, group_shift(shape)) + chunks * F::Plane::kBytes;
}
template <class F>
int64_t row_bytes(const LinearShape& shape) {
  const int64_t chunks = shape.k / kChunk;
  const int rest = static_cast<int>(chunks % kSuperChunks);
  return chunks / kSuperChunks * super_bytes<F>(kSuperChunks, shape) +
         (rest ? super_bytes<F>(rest, shape) : 0);
}

/// Loads may reach past a row's end, into the next row or this.
constexpr int64_t kPadding = 64;

template <class F>
size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>(shape.n * row_bytes<F>(shape) + kPadding);
}

template <class F>
void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t bytes = row_bytes<F>(shape), chunks = shape.k / kChunk, groups = shape.k / shape.group;
  WeightRows row = rows;
  for (int64_t n = n0; n < n1; ++n) {
    uint8_t* out = static_cast<uint8_t*>(packed) + n * bytes;
    for (int64_t c = 0; c < chunks; c += kSuperChunks) {
      const int count = static_cast<int>(chunks - c < kSuperChunks ? chunks - c : kSuperChunks);
      F::pack(row, c / kSuperChunks, count, shape, out);
      out += super_bytes<F>(count, shape);
    }
    if (row.blocks) row.blocks += row.block_row_bytes;
    if (row.q) row.q += shape.k;
    if (row.scales) row.scales += groups;
    if (row.zeros) row.zeros += groups;
  }
  if (n1 == shape.n) __builtin_memset(static_cast<uint8_t*>(packed) + n1 * bytes, 0, kPadding);
}

/// y of rows [m0, m1), columns [n0, n1) before the products.
void start_y(const LinearRun& a) {
  for (int64_t r = a.m0; r < a.m1; ++r) {
    float* y = a.y + r * a.ldy;
    for (int64_t n = a.n0; n < a.n1; ++n) y[n] = (a.accumulate ? y[n] : 0.0f) + (a.bias ? a.bias[n] : 0.0f);
  }
}

/// y[0..kCount) += sums, of which only `columns` exist.
template <int kCount>
[[gnu::always_inline]] inline void add_columns(float* y, const Vec (&sum)[kCount], int columns) {
  if (columns >= kCount) {
#pragma GCC unroll 8
    for (int c = 0; c < kCount; c += 4) add_sums(y + c, sum[c], sum[c + 1], sum[c + 2], sum[c + 3]);
    return;
  }
  float out[kCount] = {};
  for (int c = 0; c < columns; ++c) out[c] = y[c];
#pragma GCC unroll 8
  for (int c = 0; c < kCount; c += 4) add_sums(out + c, sum[c], sum[c + 1], sum[c + 2], sum[c + 3]);
  for (int c = 0; c < columns; ++c) y[c] = out[c];
}

/// Columns [n, n + R) of M rows, straight from the packed weights. Columns past n1 repeat the last.
template <class F, int M, int R>
void direct_columns(const LinearRun& a, int64_t n) {
  const int64_t bytes = row_bytes<F>(a.shape), chunks = a.shape.k / kChunk;
  const int shift = group_shift(a.shape);
  const int columns = static_cast<int>(a.n1 - n < R ? a.n1 - n : R);
  const uint8_t* from[R];
  for (int c = 0; c < R; ++c)
    from[c] = static_cast<const uint8_t*>(a.packed) + (n + (c < columns ? c : columns - 1)) * bytes;
  const float* x = a.x + a.m0 * a.ldx;
  for (int64_t block = 0; block < chunks; block += kDepthChunks) {
    Vec sum[M][R];
#pragma GCC unroll 64
    for (int i = 0; i < M * R; ++i) sum[i / R][i % R] = zero();
    const int64_t end = chunks - block < kDepthChunks ? chunks : block + kDepthChunks;
    for (int64_t first = block; first < end; first += kSuperChunks) {
      const int count = static_cast<int>(end - first < kSuperChunks ? end - first : kSuperChunks);
      const int64_t header = F::header_bytes(count, shift), size = header + count * F::Plane::kBytes;
      Scales scales[R];
#pragma GCC unroll 1
      for (int c = 0; c < R; ++c) {
        F::scales(from[c], count, shift, scales[c]);
        // Rows are short streams: the hardware starts anew with each. The next R of them, into L2, read 15
        // instead of 11 GB/s (Q8_0) and 9 instead of 6 (Q4_0) with one thread among neighbours.
        for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(from[c] + R * bytes + line, 0, 2);
      }
      for (int i = 0; i < count; ++i, x += kChunk) {
        const int64_t at = header + i * F::Plane::kBytes;
        const int scale = F::kGrouped ? i >> shift : i;
#pragma GCC unroll 64
        for (int c = 0; c < R; ++c) {
          Vec w[kVecsOfChunk];
          chunk_weights<F>(from[c] + at, scales[c], scale, w);
#pragma GCC unroll 64
          for (int v = 0; v < kVecsOfChunk; ++v)
#pragma GCC unroll 64
            for (int r = 0; r < M; ++r) sum[r][c] = fma(load(x + r * a.ldx + v * kLanes), w[v], sum[r][c]);
        }
      }
#pragma GCC unroll 64
      for (int c = 0; c < R; ++c) from[c] += size;
    }
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r) add_columns(a.y + (a.m0 + r) * a.ldy + n, sum[r], columns);
  }
}

template <class F, int M, int R>
void direct(const LinearRun& a) {
  for (int64_t n = a.n0; n < a.n1; n += R) direct_columns<F, M, R>(a, n);
}

using Scratch = float[kColumns][kDepth];

/// Inputs [first, end) (chunks) of columns [n, n + kColumns) to floats.
template <class F>
void decode(const LinearRun& a, int64_t n, int64_t first, int64_t end, Scratch& out) {
  const int64_t bytes = row_bytes<F>(a.shape);
  const int shift = group_shift(a.shape);
  const int64_t size = super_bytes<F>(kSuperChunks, a.shape);
  for (int c = 0; c < kColumns; ++c) {
    const int64_t column = n + c < a.n1 ? n + c : a.n1 - 1;
    const uint8_t* from =
        static_cast<const uint8_t*>(a.packed) + column * bytes + first / kSuperChunks * size;
    float* w_out = out[c];
    for (int64_t super = first; super < end; super += kSuperChunks, from += size) {
      const int count = static_cast<int>(end - super < kSuperChunks ? end - super : kSuperChunks);
      const uint8_t* p = from + F::header_bytes(count, shift);
      Scales scales;
      F::scales(from, count, shift, scales);
      // The columns that follow are memory's next business while the tiles run.
      for (int64_t line = 0; line < size; line += 64)
        __builtin_prefetch(from + kColumns * bytes + line, 0, 2);
      for (int i = 0; i < count; ++i, p += F::Plane::kBytes, w_out += kChunk) {
        Vec w[kVecsOfChunk];
        chunk_weights<F>(p, scales, F::kGrouped ? i >> shift : i, w);
#pragma GCC unroll 8
        for (int v = 0; v < kVecsOfChunk; ++v) store(w_out + v * kLanes, w[v]);
      }
    }
  }
}

/// M rows by kTileColumns columns of the scratch.
template <int M>
void tile(const float* w, const float* x, int64_t ldx, int64_t depth, float* y, int64_t ldy, int columns) {
  Vec sum[M][kTileColumns];
#pragma GCC unroll 64
  for (int i = 0; i < M * kTileColumns; ++i) sum[i / kTileColumns][i % kTileColumns] = zero();
  auto step = [&](int64_t at) __attribute__((always_inline)) {
    Vec values[M];
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r) values[r] = load(x + r * ldx + at);
#pragma GCC unroll 64
    for (int c = 0; c < kTileColumns; ++c) {
      const Vec weights = load(w + c * kDepth + at);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) fma_into(sum[r][c], values[r], weights);
    }
  };
  for (int64_t at = 0; at < depth; at += 2 * kLanes) {
    step(at);
    step(at + kLanes);
  }
#pragma GCC unroll 64
  for (int r = 0; r < M; ++r) add_columns(y + r * ldy, sum[r], columns);
}

template <int M = kTileRows>
[[gnu::always_inline]] inline void tile_of(int64_t rows, const float* w, const float* x, int64_t ldx,
                                           int64_t depth, float* y, int64_t ldy, int columns) {
  if constexpr (M > 1)
    if (rows != M) return tile_of<M - 1>(rows, w, x, ldx, depth, y, ldy, columns);
  tile<M>(w, x, ldx, depth, y, ldy, columns);
}

/// Columns [n, n + kColumns) of all rows, inputs from chunk `first` on, at most kDepth of them.
template <class F>
void decoded_block(const LinearRun& a, int64_t n, int64_t first) {
  const int64_t chunks = a.shape.k / kChunk;
  const int64_t end = chunks - first < kDepthChunks ? chunks : first + kDepthChunks;
  alignas(64) Scratch scratch;
  decode<F>(a, n, first, end, scratch);
  const int64_t rows = a.m1 - a.m0, tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {  // even tiles: 7 rows are 3 + 2 + 2
    const int64_t r0 = a.m0 + rows * t / tiles, r1 = a.m0 + rows * (t + 1) / tiles;
    for (int c = 0; c < kColumns && n + c < a.n1; c += kTileColumns)
      tile_of(r1 - r0, scratch[c], a.x + r0 * a.ldx + first * kChunk, a.ldx, (end - first) * kChunk,
              a.y + r0 * a.ldy + n + c, a.ldy, static_cast<int>(a.n1 - n - c));
  }
}

template <class F>
void decoded(const LinearRun& a) {
  // While x fits L2 a group of columns takes all of k, so that weights stream; else x is cut along k.
  constexpr int64_t kCachedBytes = 512 << 10;
  const int64_t chunks = a.shape.k / kChunk;
  if ((a.m1 - a.m0) * a.shape.k * static_cast<int64_t>(sizeof(float)) <= kCachedBytes) {
    for (int64_t n = a.n0; n < a.n1; n += kColumns)
      for (int64_t c = 0; c < chunks; c += kDepthChunks) decoded_block<F>(a, n, c);
  } else {
    for (int64_t c = 0; c < chunks; c += kDepthChunks)
      for (int64_t n = a.n0; n < a.n1; n += kColumns) decoded_block<F>(a, n, c);
  }
}

template <class F>
void run(const LinearRun& a) {
  start_y(a);
  switch (a.m1 - a.m0) {
    case 1:
      return direct<F, 1, 8>(a);
    case 2:
      return direct<F, 2, 4>(a);
    default:
      return decoded<F>(a);
  }
}

size_t nothing_prepared(int64_t, const LinearShape&) { return 0; }

#include "kernels/generic/kernel_name.inl"

template <class F>
constexpr Name kKernelName(F::kName, kSuffix);

template <class F>
constexpr LinearKernel kKernel = {
    .name = kKernelName<F>.text,
    .m_step = kTileRows,
    .n_step = kColumns,
    .packed_bytes = packed_bytes<F>,
    .pack = pack<F>,
    .prepared_bytes = nothing_prepared,
    .prepare = nullptr,
    .run = run<F>,
};
