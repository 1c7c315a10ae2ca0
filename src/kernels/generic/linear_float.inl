// Linear over float panels (panels.inl) for any Vec: tiles of M rows by P panels of 16 columns, one
// accumulator per output, products fused-multiply-added in rising k. An accumulator starts at addend + bias,
// and a block of K ends by spilling it to y and starts by loading it again, which is exact: so tile shape, K
// blocks and splits never change a bit of a result.
//
// Needs vec.h's operations and, before the include, the folder's tile shape:
//   kMaxRows        rows of the largest tile
//   kWidePanels     P of tiles inside a large batch
//   kAccumulators   vectors that a tile may keep in registers
//   panels_of(m)    P (a power of two, at most 8) for a batch of m <= kMaxRows rows: bound by memory, so
//                   several panels at once, for several streams and enough independent accumulators
//   kAheadRows      as in prefetch.inl
// Include inside the anonymous namespace of the ISA.

#include "kernels/generic/prefetch.inl"

constexpr int kVecs = kPanel / kLanes;  ///< vectors of a panel

// What a tile does with one Unit of a panel and kDepth elements of x.
struct FmaF32 {
  using Pack = PackF32;
  using X = float;
  static constexpr int kDepth = 1;
  [[gnu::always_inline]] static Vec weights(const float* unit, int) { return load(unit); }
  [[gnu::always_inline]] static Vec value(const float* x) { return broadcast(x); }
  [[gnu::always_inline]] static void mul(Vec& sum, Vec value, Vec weights) { fma_into(sum, value, weights); }
};

struct FmaBF16 : FmaF32 {
  using Pack = PackBF16;
  static constexpr int kDepth = 2;
  [[gnu::always_inline]] static Vec weights(const uint32_t* unit, int d) {
    return d == 0 ? bf16_low(unit) : bf16_high(unit);
  }
};

template <class Op>
struct Block {  ///< one tile's operands: a K block
  using Unit = typename Op::Pack::Unit;
  const Unit* w;         ///< first panel at the block's first k
  int64_t panel_stride;  ///< units between panels
  const typename Op::X* x;
  int64_t ldx;
  int64_t depth;  ///< elements of x
  float* y;
  int64_t ldy;
  const float* bias;  ///< null after the first K block
  bool add;           ///< start at y: accumulate, or a later K block
  int columns;        ///< at most P * kPanel
  Ahead ahead;
};

template <int V>
[[gnu::always_inline]] inline Vec load_columns(const float* p, int v, int columns) {
  return columns == V * kLanes ? load(p + v * kLanes) : load_first(p + v * kLanes, columns - v * kLanes);
}

/// A function of its own: inlined into the loop over panels its pointers went to the stack (5 % of a prefill
/// on AVX2).
template <class Op, int M, int P>
[[gnu::noinline]] void tile(const Block<Op>& b) {
  constexpr int V = P * kVecs;
  Vec sum[M][V];
#pragma GCC unroll 64
  for (int v = 0; v < V; ++v) {
    const Vec start = b.bias ? load_columns<V>(b.bias, v, b.columns) : zero();
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
      sum[r][v] = b.add ? add(load_columns<V>(b.y + r * b.ldy, v, b.columns), start) : start;
  }
  auto w = b.w;
  Ahead ahead = b.ahead;
  const int64_t panel_stride = b.panel_stride, ldx = b.ldx, depth = b.depth;
  const typename Op::X*
      x[(M + 2) / 3];  // a base for every three rows: the three are then reached by scaled indices
#pragma GCC unroll 64
  for (int i = 0; i < (M + 2) / 3; ++i) x[i] = b.x + 3 * i * ldx;
  auto step = [&](int d) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int p = 0; p < P; ++p) {  // panel by panel: only kVecs weights in registers at a time
      Vec weights[kVecs];
#pragma GCC unroll 64
      for (int v = 0; v < kVecs; ++v) weights[v] = Op::weights(w + p * panel_stride + v * kLanes, d);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) {
        const Vec value = Op::value(x[r / 3] + r % 3 * ldx + d);
#pragma GCC unroll 64
        for (int v = 0; v < kVecs; ++v) Op::mul(sum[r][p * kVecs + v], value, weights[v]);
      }
    }
  };
  int64_t kk = 0;
  for (; kk + Op::kDepth <= depth; kk += Op::kDepth) {
    ahead.template turn<M, P, kPanel * sizeof(*w)>(panel_stride * sizeof(*w));
    step(0);
    if constexpr (Op::kDepth == 2) step(1);
    w += kPanel;
#pragma GCC unroll 64
    for (int i = 0; i < (M + 2) / 3; ++i) x[i] += Op::kDepth;
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

/// tile<Op, rows, P> for any number of rows that P panels leave registers for.
template <class Op, int P, int M = 1>
[[gnu::always_inline]] inline void tile_rows(int rows, const Block<Op>& b) {
  if constexpr (M < kMaxRows && (M + 1) * P * kVecs <= kAccumulators)
    if (rows != M) return tile_rows<Op, P, M + 1>(rows, b);
  tile<Op, M, P>(b);
}

struct Rows {  ///< x as Op reads it
  const void* first;
  int64_t ld;
};

struct Span {  ///< of columns and of elements of x
  int64_t n0, n1, k0, k1;
  int64_t next;  ///< units from a span's first weight to what is read next (after a tail of fewer panels: not
                 ///< quite)
};

/// All rows of a span, P panels at once while they last, then half as many.
template <class Op, int P>
void run_span(const LinearRun& a, const Rows& x, Span span) {
  const int64_t stride = panel_units<typename Op::Pack>(a.shape.k);
  const int64_t rows = a.m1 - a.m0, tiles = (rows + kMaxRows - 1) / kMaxRows;
  constexpr int64_t kStep = P * kPanel;
  for (; P == 1 ? span.n0 < span.n1 : span.n0 + kStep <= span.n1; span.n0 += kStep) {
    Block<Op> b;
    b.w = static_cast<const typename Op::Pack::Unit*>(a.packed) + span.n0 / kPanel * stride +
          span.k0 / Op::kDepth * kPanel;
    b.panel_stride = stride;
    b.ldx = x.ld;
    b.depth = span.k1 - span.k0;
    b.ldy = a.ldy;
    b.bias = a.bias && span.k0 == 0 ? a.bias + span.n0 : nullptr;
    b.add = a.accumulate || span.k0 > 0;
    b.columns = static_cast<int>(span.n1 - span.n0 < kStep ? span.n1 - span.n0 : kStep);
    const int64_t steps = b.depth / Op::kDepth;
    const Ahead ahead = Ahead::of(b.w, b.w + span.next, steps * kPanel * sizeof(*b.w), steps, rows, tiles);
    each_tile(
        a.m0, rows, tiles, [&](int64_t i, int64_t row, int count) __attribute__((always_inline)) {
          b.x = static_cast<const typename Op::X*>(x.first) + row * x.ld + span.k0;
          b.y = a.y + row * a.ldy + span.n0;
          b.ahead = ahead.tile(i);
          // Of the next tile: it begins by adding to them.
          const int64_t end = row + count, left = a.m1 - end;
          fetch_outputs(a.y + end * a.ldy + span.n0, a.ldy, left < kMaxRows ? left : kMaxRows, kStep);
          tile_rows<Op, P>(count, b);
        });
  }
  if constexpr (P > 1)
    if (span.n0 < span.n1) run_span<Op, P / 2>(a, x, span);
}

constexpr int64_t kDepthBlock =
    256;  ///< depth steps of a K block: 16 KB of a panel stay in L1 while the rows pass
constexpr int64_t kSmallBatch = 256 << 10;  ///< bytes of x that are sure to stay in L2

/// All of `a`. `k` counts elements of X.
template <class Op>
void run_blocks(const LinearRun& a, const Rows& x, int64_t k) {
  const int64_t rows = a.m1 - a.m0;
  const bool few = rows <= kMaxRows;
  const int panels = few ? panels_of(static_cast<int>(rows)) : kWidePanels;
  const int64_t block = few ? k : kDepthBlock * Op::kDepth;  // one pass needs no blocks
  // A small batch reads the weight in the order of memory: all K blocks of some panels, then the next panels.
  // A large one passes all columns with each block of x.
  const bool small = rows * k * static_cast<int64_t>(sizeof(typename Op::X)) <= kSmallBatch;
  const int64_t columns = small ? panels * kPanel : a.n1 - a.n0;
  const int64_t panel_step = panels * panel_units<typename Op::Pack>(a.shape.k);
  for (int64_t n = a.n0; n < a.n1; n += columns)
    for (int64_t k0 = 0; k0 < k; k0 += block) {
      Span span{n, n + columns < a.n1 ? n + columns : a.n1, k0, k0 + block < k ? k0 + block : k, panel_step};
      if (small)
        span.next = span.k1 < k ? block / Op::kDepth * kPanel : panel_step - k0 / Op::kDepth * kPanel;
      switch (panels) {
        case 1:
          run_span<Op, 1>(a, x, span);
          break;
        case 2:
          run_span<Op, 2>(a, x, span);
          break;
        case 4:
          run_span<Op, 4>(a, x, span);
          break;
        default:
          run_span<Op, 8>(a, x, span);
      }
    }
}

template <class Op>
void run(const LinearRun& a) {
  run_blocks<Op>(a, {a.x, a.ldx}, a.shape.k);
}
