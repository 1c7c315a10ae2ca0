// Where a tile of M rows by several panels reads, for the formats that have scales inside k. Include
// inside the folder's anonymous namespace, after prefetch.inl.
template <int M>
struct Cursor {
  const char* weights;  ///< of the first panel, at what is multiplied next
  Ahead ahead;
  const char* x[(M + 2) / 3];  ///< a base for every three rows: the three are then reached by scaled indices
  int64_t panel_stride, row_stride;

  OCTAVO_INLINE const char* row(int r) const { return x[r / 3] + r % 3 * row_stride; }
  OCTAVO_INLINE void advance_rows(int bytes) {
#pragma GCC unroll 64
    for (int i = 0; i < (M + 2) / 3; ++i) x[i] += bytes;
  }
  /// GCC 12 would keep the sum of every base and constant offset in a variable of its own, twenty of them, on
  /// the stack: a sixth of the loop's instructions. It cannot see through this.
  OCTAVO_INLINE void hide() {
    __asm__("" : "+r"(weights), "+r"(ahead.at), "+r"(row_stride));
#pragma GCC unroll 64
    for (int i = 0; i < (M + 2) / 3; ++i) __asm__("" : "+r"(x[i]));
  }
};
