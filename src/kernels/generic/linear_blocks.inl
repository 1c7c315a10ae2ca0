// Weight-only linear over packed rows (block_formats.inl), any format and Vec. The lanes of a sum run along
// k: each (row of x, output) has one Vec accumulator for kDepth inputs, in rising k, whose lanes are then
// added to y in a fixed order (add_sums). One and two rows decode straight into registers; more rows decode
// eight outputs at a time to a scratch in L1 and run register tiles over it. Both ways an output sees the
// same operations on the same numbers, so m, splits and tiles never change a bit of it.
//
// Rejected: sums of a chunk scaled at its end. It saves one multiplication in three of a single row, but
// a tile would need twice its accumulators, and rows must not depend on how many there are.
//
// Needs vec.h, codes.inl, block_formats.inl, what is multiplied (float_products.inl) and, before the include:
//   kTileRows, kTileColumns   the register tile over the scratch (columns 4 or 8)

constexpr int kRowStep = kTileRows, kColumns = 8;  ///< kColumns outputs are decoded together
constexpr int kScratchBytes = 16 << 10;
/// Inputs that are summed before y is touched.
constexpr int kDepth = kScratchBytes / kColumns / static_cast<int>(sizeof(Element)),
              kDepthChunks = kDepth / kChunk;

#include "kernels/generic/packed_blocks.inl"

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
  const Inputs inputs = inputs_of(a);
  const Element* x = inputs.first + a.m0 * inputs.ld;
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
          Vec parts[kParts];
          parts_of(w, parts);
#pragma GCC unroll 64
          for (int p = 0; p < kParts; ++p)
#pragma GCC unroll 64
            for (int r = 0; r < M; ++r)
              sum[r][c] = multiply(sum[r][c], load_part(x + r * inputs.ld + p * kPart), parts[p]);
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

using Scratch = Element[kColumns][kDepth];

/// M rows by kTileColumns columns of the scratch.
template <int M>
void tile(const Element* w, const Element* x, int64_t ldx, int64_t depth, float* y, int64_t ldy,
          int columns) {
  Vec sum[M][kTileColumns];
#pragma GCC unroll 64
  for (int i = 0; i < M * kTileColumns; ++i) sum[i / kTileColumns][i % kTileColumns] = zero();
  auto step = [&](int64_t at) __attribute__((always_inline)) {
    Vec values[M];
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r) values[r] = load_part(x + r * ldx + at);
#pragma GCC unroll 64
    for (int c = 0; c < kTileColumns; ++c) {
      const Vec weights = load_part(w + c * kDepth + at);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) multiply_into(sum[r][c], values[r], weights);
    }
  };
  for (int64_t at = 0; at < depth; at += kChunk)
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) step(at + p * kPart);
#pragma GCC unroll 64
  for (int r = 0; r < M; ++r) add_columns(y + r * ldy, sum[r], columns);
}

template <int M = kTileRows>
[[gnu::always_inline]] inline void tile_of(int64_t rows, const Element* w, const Element* x, int64_t ldx,
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
  decode<F>(a, n, kColumns, first, end, [&](int c, int64_t chunk, const Vec(&parts)[kParts]) {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) store_part(scratch[c] + chunk * kChunk + p * kPart, parts[p]);
  });
  const Inputs inputs = inputs_of(a);
  const int64_t rows = a.m1 - a.m0, tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t t = 0; t < tiles; ++t) {  // even tiles: 7 rows are 3 + 2 + 2
    const int64_t r0 = a.m0 + rows * t / tiles, r1 = a.m0 + rows * (t + 1) / tiles;
    for (int c = 0; c < kColumns && n + c < a.n1; c += kTileColumns)
      tile_of(r1 - r0, scratch[c], inputs.first + r0 * inputs.ld + first * kChunk, inputs.ld,
              (end - first) * kChunk, a.y + r0 * a.ldy + n + c, a.ldy, static_cast<int>(a.n1 - n - c));
  }
}

template <class F>
void decoded(const LinearRun& a) {
  // While x fits L2 a group of columns takes all of k, so that weights stream; else x is cut along k.
  constexpr int64_t kCachedBytes = 512 << 10;
  const int64_t chunks = a.shape.k / kChunk;
  if ((a.m1 - a.m0) * a.shape.k * static_cast<int64_t>(sizeof(Element)) <= kCachedBytes) {
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
