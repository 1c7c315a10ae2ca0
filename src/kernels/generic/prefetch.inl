// What a tile fetches ahead while it multiplies: its share of the panels that follow. Include inside the
// folder's anonymous namespace.
//
// In shares, because the first tile of a batch alone would ask for more than memory gives, and wait (16 rows
// of W4A8 on AVX2: 70 % of the mix of instructions, not 54).
struct Ahead {
  const char* at;  ///< in the first of the panels
  int64_t step;    ///< bytes by which it moves on with each turn of the tile's loop

  /// Share `i` of `tiles` of `bytes` that begin at `next`, in `turns` turns.
  static Ahead share(const char* next, int64_t bytes, int64_t i, int64_t tiles, int64_t turns) {
    const int64_t part = (bytes + tiles - 1) / tiles;
    return {next + i * part, turns > 0 ? (part + turns - 1) / turns : 0};
  }
  /// One turn, which reads `Bytes` of each panel: half as many reach as far as the share of one of two tiles.
  template <int P, int Bytes>
  OCTAVO_INLINE void turn(int64_t panel_stride) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p)
#pragma GCC unroll 8
      for (int line = 0; line < Bytes / 2; line += 64) __builtin_prefetch(at + p * panel_stride + line, 0, 3);
    at += step;
  }
};
