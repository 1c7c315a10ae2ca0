// Where a tile of an int8 or block format ends: y = value + (addend + bias). Include inside the folder's
// anonymous namespace after vec.h's operations and Tile (y, ldy, bias, add, columns).

/// Whole: all V vectors are whole ones. A masked store of AVX2 takes 12 cycles of Zen 4 where a plain one
/// takes one: 3 % of a tile of W4A8 with a k of 2048.
template <int M, int V, bool Whole, class F>
OCTAVO_INLINE void store_outputs_of(const Tile& t, const F& column) {
  auto get = [](const float* p, int count) __attribute__((always_inline)) {
    return Whole ? load(p) : load_first(p, count);
  };
#pragma GCC unroll 64
  for (int v = 0; v < V; ++v) {
    const int count = t.columns - v * kLanes;
    if (!Whole && count <= 0) break;
    const Vec bias = t.bias ? get(t.bias + v * kLanes, count) : zero();
    const auto row = column(v);
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r) {
      float* y = t.y + r * t.ldy + v * kLanes;
      const Vec start = t.add ? add(get(y, count), bias) : bias;
      if constexpr (Whole)
        store(y, add(start, row(r)));
      else
        store_first(y, add(start, row(r)), count);
    }
  }
}

/// column(v) is called once for each vector of outputs and gives row(r), the value of a row there.
template <int M, int V, class F>
OCTAVO_INLINE void store_outputs(const Tile& t, const F& column) {
  if (t.columns >= V * kLanes)
    store_outputs_of<M, V, true>(t, column);
  else
    store_outputs_of<M, V, false>(t, column);
}
