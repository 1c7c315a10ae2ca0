// Linear over float panels (panels.inl) for any Vec: tiles of M rows by P panels of 16 columns, one
// accumulator per output, products fused-multiply-added in rising k. An accumulator starts at addend + bias,
// and a block of K ends by spilling it to y and starts by loading it again, which is exact: so tile shape, K
// blocks and splits never change a bit of a result. Needs vec.h's operations. Include inside the anonymous
// namespace of the ISA.

constexpr int kVecs = kPanel / kLanes;  ///< vectors of a panel

// One depth step of weights: kDepth vectors' worth of columns [v * kLanes, (v + 1) * kLanes).
template <class Pack>
[[gnu::always_inline]] inline Vec widen(const typename Pack::Unit* step, int v, int d) {
  if constexpr (Pack::kDepth == 1) {
    return load(step + v * kLanes);
  } else {
    return d == 0 ? bf16_low(step + v * kLanes) : bf16_high(step + v * kLanes);
  }
}

template <class Pack>
struct Block {                   ///< one tile's operands: K block [k0, k0 + depth)
  const typename Pack::Unit* w;  ///< first panel at k0
  int64_t panel_stride;          ///< units between panels
  const float* x;                ///< first row at k0
  int64_t ldx;
  int64_t depth;
  float* y;
  int64_t ldy;
  const float* bias;                    ///< null after the first K block
  bool add;                             ///< start at y: accumulate, or a later K block
  int columns;                          ///< at most P * kPanel
  const typename Pack::Unit* prefetch;  ///< what the following tile reads: one line per depth step
};

template <int V>
[[gnu::always_inline]] inline Vec load_columns(const float* p, int v, int columns) {
  return columns == V * kLanes ? load(p + v * kLanes) : load_first(p + v * kLanes, columns - v * kLanes);
}

template <class Pack, int M, int P>
void tile(const Block<Pack>& b) {
  constexpr int V = P * kVecs;
  Vec sum[M][V];
#pragma GCC unroll 64
  for (int v = 0; v < V; ++v) {
    const Vec start = b.bias ? load_columns<V>(b.bias, v, b.columns) : zero();
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
      sum[r][v] = b.add ? add(load_columns<V>(b.y + r * b.ldy, v, b.columns), start) : start;
  }
  const typename Pack::Unit* w = b.w;
  const typename Pack::Unit* ahead = b.prefetch;
  const int64_t panel_stride = b.panel_stride, ldx = b.ldx, depth = b.depth;
  const float* x = b.x;
  const float* x3 = b.x + 3 * ldx;  // two bases: rows 0..2 and 3..5 are then reached by scaled indices
  auto step = [&](int d) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int p = 0; p < P; ++p) {  // panel by panel: only kVecs weights in registers at a time
      Vec weights[kVecs];
#pragma GCC unroll 64
      for (int v = 0; v < kVecs; ++v) weights[v] = widen<Pack>(w + p * panel_stride, v, d);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) {
        const Vec value = broadcast((r < 3 ? x + r * ldx : x3 + (r - 3) * ldx) + d);
#pragma GCC unroll 64
        for (int v = 0; v < kVecs; ++v) fma_into(sum[r][p * kVecs + v], value, weights[v]);
      }
    }
  };
  int64_t kk = 0;
  for (; kk + Pack::kDepth <= depth; kk += Pack::kDepth) {
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) __builtin_prefetch(ahead + p * panel_stride, 0, 3);
    step(0);
    if constexpr (Pack::kDepth == 2) step(1);
    w += kPanel;
    ahead += kPanel;
    x += Pack::kDepth;
    x3 += Pack::kDepth;
  }
  if (kk < depth) step(0);  // odd k: the other half of the pair would multiply an element past the row
#pragma GCC unroll 64
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
    for (int v = 0; v < V; ++v) {
      float* y = b.y + r * b.ldy + v * kLanes;
      if (b.columns == V * kLanes)
        store(y, sum[r][v]);
      else
        store_first(y, sum[r][v], b.columns - v * kLanes);
    }
}

constexpr int kMaxRows = 6;  ///< rows of the largest tile
constexpr int64_t kDepthBlock =
    256;                    ///< depth steps of a K block: 16 KB of a panel stay in L1 while the rows pass
constexpr int kAhead = 32;  ///< depth steps that a lone tile prefetches ahead of itself

template <class Pack, int P>
void tile_rows(int rows, const Block<Pack>& b) {
  switch (rows) {
    case 1:
      return tile<Pack, 1, P>(b);
    case 2:
      return tile<Pack, 2, P>(b);
    case 3:
      return tile<Pack, 3, P>(b);
    case 4:
      return tile<Pack, 4, P>(b);
    case 5:
      return tile<Pack, 5, P>(b);
    default:
      return tile<Pack, 6, P>(b);
  }
}

/// Columns [first, last) for one K block and all rows, in groups of P panels.
template <class Pack, int P>
void run_columns(const LinearRun& a, int64_t first, int64_t last, int64_t k0, int64_t depth,
                 void (*call)(int, const Block<Pack>&)) {
  const int64_t stride = panel_units<Pack>(a.k);
  const int64_t rows = a.m1 - a.m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t n = first; n < last; n += P * kPanel) {
    Block<Pack> b;
    b.w =
        static_cast<const typename Pack::Unit*>(a.packed) + n / kPanel * stride + k0 / Pack::kDepth * kPanel;
    b.panel_stride = stride;
    b.ldx = a.ldx;
    b.depth = depth;
    b.ldy = a.ldy;
    b.bias = a.bias && k0 == 0 ? a.bias + n : nullptr;
    b.add = a.accumulate || k0 > 0;
    b.columns = static_cast<int>(last - n < P * kPanel ? last - n : P * kPanel);
    for (int64_t t = 0; t < tiles; ++t) {  // even tiles: 7 rows are 4 + 3, not 6 + 1
      const int64_t r0 = a.m0 + rows * t / tiles, r1 = a.m0 + rows * (t + 1) / tiles;
      b.x = a.x + r0 * a.ldx + k0;
      b.y = a.y + r0 * a.ldy + n;
      b.prefetch = tiles == 1 ? b.w + kAhead * kPanel : b.w + P * stride;
      call(static_cast<int>(r1 - r0), b);
    }
  }
}

/// P panels at once while they last, then one at a time.
template <class Pack, int P>
void run_groups(const LinearRun& a, int64_t k0, int64_t depth, void (*wide)(int, const Block<Pack>&)) {
  int64_t split = a.n0;
  if constexpr (P > 1) {
    split += (a.n1 - a.n0) / (P * kPanel) * (P * kPanel);
    run_columns<Pack, P>(a, a.n0, split, k0, depth, wide);
  }
  run_columns<Pack, 1>(a, split, a.n1, k0, depth, tile_rows<Pack, 1>);
}

template <class Pack>
void run(const LinearRun& a) {
  // Few rows: bound by memory, so several panels at once, for several streams and enough independent
  // accumulators.
  switch (a.m1 - a.m0) {
    case 1:
      return run_groups<Pack, 4>(a, 0, a.k, [](int, const Block<Pack>& b) { tile<Pack, 1, 4>(b); });
    case 2:
      return run_groups<Pack, 2>(a, 0, a.k, [](int, const Block<Pack>& b) { tile<Pack, 2, 2>(b); });
    case 3:
    case 4:
    case 5:
    case 6:
      return run_groups<Pack, 1>(a, 0, a.k, tile_rows<Pack, 1>);
  }
  constexpr int64_t kBlock = kDepthBlock * Pack::kDepth;
  for (int64_t k0 = 0; k0 < a.k; k0 += kBlock)
    run_groups<Pack, 1>(a, k0, a.k - k0 < kBlock ? a.k - k0 : kBlock, tile_rows<Pack, 1>);
}
