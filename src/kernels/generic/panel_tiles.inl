// How a run of an int8 format is cut into tiles of M rows by P panels. Include inside the folder's anonymous
// namespace after kPanel, kVecs, prefetch.inl and
//   Tile              panel and row (the first ones), their strides, y, ldy, bias, add, columns, ahead
//                     (prefetch.inl), turns of its loop, and what else tile() reads
//   tile_of(run)      a Tile with all that does not depend on its place
//   tile<M, P>(Tile)
//   kMaxRows, kWidePanels, kAccumulators, panels_of(m), kAheadRows: as in linear_float.inl

/// tile<rows, P> for any number of rows that P panels leave registers for.
template <int P, int M = 1>
[[gnu::always_inline]] inline void tile_rows(int rows, const Tile& t) {
  if constexpr (M < kMaxRows && (M + 1) * P * kVecs <= kAccumulators)
    if (rows != M) return tile_rows<P, M + 1>(rows, t);
  tile<M, P>(t);
}

void place_columns(const LinearRun& a, int64_t n, int panels, Tile& t) {
  t.panel = static_cast<const char*>(a.packed) + n / kPanel * t.panel_stride;
  t.bias = a.bias ? a.bias + n : nullptr;
  t.columns = static_cast<int>(a.n1 - n < panels * kPanel ? a.n1 - n : panels * kPanel);
}

void place_rows(const LinearRun& a, int64_t n, int64_t row, Tile& t) {
  t.row = static_cast<const char*>(a.prepared) + row * t.row_stride;
  t.y = a.y + row * a.ldy + n;
}

/// Columns [n0, n1) of the run and all its rows, P panels at once while they last, then half as many.
template <int P>
void run_columns(const LinearRun& a, int64_t n0) {
  const int64_t rows = a.m1 - a.m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  Tile t = tile_of(a);
  int64_t n = n0;
  for (; P == 1 ? n < a.n1 : n + P * kPanel <= a.n1; n += P * kPanel) {
    place_columns(a, n, P, t);
    const Ahead ahead =
        Ahead::of(t.panel, t.panel + P * t.panel_stride, t.panel_stride, t.turns, rows, tiles);
    each_tile(
        a.m0, rows, tiles, [&](int64_t i, int64_t row, int count) __attribute__((always_inline)) {
          place_rows(a, n, row, t);
          t.ahead = ahead.tile(i);
          fetch_outputs(t.y, t.ldy, count, P * kPanel);
          tile_rows<P>(count, t);
        });
  }
  if constexpr (P > 1)
    if (n < a.n1) run_columns<P / 2>(a, n);
}

void run_panels(const LinearRun& a) {
  const int64_t rows = a.m1 - a.m0;
  switch (rows <= kMaxRows ? panels_of(static_cast<int>(rows)) : kWidePanels) {
    case 1:
      return run_columns<1>(a, a.n0);
    case 2:
      return run_columns<2>(a, a.n0);
    case 4:
      return run_columns<4>(a, a.n0);
    default:
      return run_columns<8>(a, a.n0);
  }
}
