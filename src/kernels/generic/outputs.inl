// Where a tile of an int8 format ends: y = value + (addend + bias). Include inside the folder's anonymous
// namespace after vec.h's operations and Tile (y, ldy, bias, add, columns).

/// column(v) is called once for each vector of outputs and gives row(r), the value of a row there.
template <int M, int V, class F>
OCTAVO_INLINE void store_outputs(const Tile& t, const F& column) {
#pragma GCC unroll 64
  for (int v = 0; v < V; ++v) {
    const int count = t.columns - v * kLanes;
    if (count <= 0) break;
    const Vec bias = t.bias ? load_first(t.bias + v * kLanes, count) : zero();
    const auto row = column(v);
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r) {
      float* y = t.y + r * t.ldy + v * kLanes;
      const Vec start = t.add ? add(load_first(y, count), bias) : bias;
      store_first(y, add(start, row(r)), count);
    }
  }
}
