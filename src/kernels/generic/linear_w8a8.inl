// W8A8 tiles of M rows by P panels (int8.inl), for any IVec. Before the include, the folder's dot.inl
// defines:
//   IVec, izero(), to_float(IVec), load_int(const int32_t*), set_int(int32_t), and - and * of IVec
//   dot_weights(const int8_t*)        kLanes columns' kQuad weights each
//   dot_value(const uint32_t*)        one unit of a row in all lanes
//   dot_into(IVec& sum, value, weights)
//   kMaxRows, kWidePanels, kAccumulators, panels_of(m), kAheadRows: as in linear_float.inl
// No K blocks: a panel of int8 is small enough for L2, and integer sums stay in registers.

constexpr int kVecs = kPanel / kLanes;
constexpr int kTurn = 4;  ///< units of a turn of the loop

template <int N>
struct Count {
  static constexpr int value = N;
};

#include "kernels/generic/prefetch.inl"

struct Tile {
  const char* panel;  ///< first panel
  int64_t panel_stride;
  const char* row;  ///< first prepared row
  int64_t row_stride;
  int64_t units;
  float* y;
  int64_t ldy;
  const float* bias;
  bool add;
  int columns;
  int64_t turns;  ///< of the loop over a panel, whole ones
  Ahead ahead;
};

#include "kernels/generic/outputs.inl"

template <int M, int P>
void finish(const Tile& t, const IVec (&sum)[M][P * kVecs]) {
  store_outputs<M, P * kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        const PanelHeader* header =
            reinterpret_cast<const PanelHeader*>(t.panel + v / kVecs * t.panel_stride);
        const int at = v % kVecs * kLanes;
        const Vec scale = load(header->scale + at);
        const IVec weights = load_int(header->sum + at), zeros = load_int(header->zero + at);
        return [&, v, scale, weights, zeros ](int r) __attribute__((always_inline)) {
          const RowHeader* row = reinterpret_cast<const RowHeader*>(t.row + r * t.row_stride);
          const IVec exact = sum[r][v] - weights * set_int(row->offset) - zeros * set_int(row->sum);
          return to_float(exact) * scale * broadcast(&row->scale);
        };
      });
}

/// Not inlined: see linear_float.inl.
template <int M, int P>
[[gnu::noinline]] void tile(const Tile& t) {
  IVec sum[M][P * kVecs];
#pragma GCC unroll 64
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
    for (int v = 0; v < P * kVecs; ++v) sum[r][v] = izero();
  const int8_t* w = reinterpret_cast<const int8_t*>(t.panel + sizeof(PanelHeader));
  Ahead ahead = t.ahead;
  const uint32_t* x[(M + 2) / 3];
#pragma GCC unroll 64
  for (int i = 0; i < (M + 2) / 3; ++i)
    x[i] = reinterpret_cast<const uint32_t*>(t.row + 3 * i * t.row_stride + sizeof(RowHeader));
  const int64_t panel_stride = t.panel_stride, row_units = t.row_stride / 4;
  // Several units a turn: the loop's own instructions would cost a tenth of the front end's slots.
  auto turn = [&](auto count) __attribute__((always_inline)) {
    constexpr int kCount = decltype(count)::value;
    ahead.template turn<M, P, kCount * kPanel * kQuad>(panel_stride);
#pragma GCC unroll 8
    for (int u = 0; u < kCount; ++u)
#pragma GCC unroll 64
      for (int p = 0; p < P; ++p) {
        IVec weights[kVecs];
#pragma GCC unroll 64
        for (int v = 0; v < kVecs; ++v)
          weights[v] = dot_weights(w + p * panel_stride + (u * kPanel + v * kLanes) * kQuad);
#pragma GCC unroll 64
        for (int r = 0; r < M; ++r) {
          const IVec value = dot_value(x[r / 3] + r % 3 * row_units + u);
#pragma GCC unroll 64
          for (int v = 0; v < kVecs; ++v) dot_into(sum[r][p * kVecs + v], value, weights[v]);
        }
      }
    w += kCount * kPanel * kQuad;
#pragma GCC unroll 64
    for (int i = 0; i < (M + 2) / 3; ++i) x[i] += kCount;
  };
  int64_t u = 0;
  for (; u + kTurn <= t.units; u += kTurn) turn(Count<kTurn>{});
  for (; u < t.units; ++u) turn(Count<1>{});
  finish<M, P>(t, sum);
}

Tile tile_of(const LinearRun& a) {
  Tile t{};
  t.panel_stride = panel_bytes(a.shape.k);
  t.row_stride = row_bytes(a.shape.k);
  t.units = units(a.shape.k);
  t.turns = t.units / kTurn;
  t.ldy = a.ldy;
  t.add = a.accumulate;
  return t;
}

#include "kernels/generic/panel_tiles.inl"

void run(const LinearRun& a) { run_panels(a); }
