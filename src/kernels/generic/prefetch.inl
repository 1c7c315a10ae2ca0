// The tiles of a batch, and what each fetches ahead while it multiplies. Include inside the folder's
// anonymous namespace, after
//   OCTAVO_INLINE (vec.h)
//   kAheadRows   rows from which a lone tile fetches its own panels. With fewer it waits for memory all the
//                time, and there the hardware's prefetchers alone are faster (one row of BF16 or W8A8 on Zen
//                4: by a sixth); behind more products they do not run far enough ahead (bench/README.md,
//                small batches: 6 rows on AVX2 take 60 % of the time)

struct Ahead {
  const char* at;  ///< in the first of the tile's panels, or of those that follow
  int64_t step;    ///< bytes by which it moves on with each turn of the tile's loop
  int64_t part;    ///< bytes from tile to tile

  /// Of the first of `tiles`, of `rows` together, that read `bytes` of each panel from `own` on in `turns`
  /// turns. A lone tile fetches its own panels, several share the fetching of the `next` ones: the first
  /// alone would ask for more than memory gives, and wait (16 rows on AVX2: BF16 80 to 90 % of the FMA peak,
  /// W4A8 54 to 70 % of its mix). Once for all tiles, since it divides.
  static Ahead of(const void* own, const void* next, int64_t bytes, int64_t turns, int64_t rows,
                  int64_t tiles) {
    constexpr int64_t kDistance = 2048;
    const char* first = static_cast<const char*>(own);
    if (turns == 0 || tiles == 0 || (tiles == 1 && rows < kAheadRows)) return {first, 0, 0};
    const int64_t part = (bytes + tiles - 1) / tiles, step = (part + turns - 1) / turns;
    return {tiles == 1 ? first + kDistance : static_cast<const char*>(next), step, part};
  }
  Ahead tile(int64_t i) const { return {at + i * part, step, part}; }
  /// One turn of a tile, which reads `Bytes` of each of P panels (a lone tile's step is longer where scales
  /// lie between: their lines are left to the hardware).
  template <int M, int P, int Bytes>
  OCTAVO_INLINE void turn(int64_t panel_stride) {
    static_assert(kAheadRows > 1);
    if constexpr (M == 1) return;  // a lone tile: of several none has one row
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int line = 0; line < Bytes; line += 64) __builtin_prefetch(at + p * panel_stride + line, 0, 3);
    at += step;
  }
};

/// f(tile, its first row, its rows) for rows [first, first + rows) in `tiles` tiles that differ by one row at
/// most: 7 rows are 4 + 3, not 6 + 1.
template <class F>
OCTAVO_INLINE void each_tile(int64_t first, int64_t rows, int64_t tiles, const F& f) {
  if (tiles == 0) return;
  const int64_t least = rows / tiles, more = rows % tiles;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t count = least + (i < more ? 1 : 0);
    f(i, first, static_cast<int>(count));
    first += count;
  }
}

/// Fetches outputs that a tile is going to write. Rows of y are often a power of two apart, so that their
/// lines share a set of L1 and L2 and few stay there.
OCTAVO_INLINE void fetch_outputs(const float* y, int64_t ldy, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += 16) __builtin_prefetch(y + r * ldy + c, 1, 3);
}
