// Q8A8 and Q4A8 tiles of M rows by P panels (int8_groups.inl), for any IVec. Before the include,
// group_dot8.inl or group_dot4.inl defines the products of a unit, and the folder
//   load_half(const uint16_t*)    kLanes float16 as floats
//   kKeepResults                  there are registers for results besides sums; else they wait on the stack
//   kMaxRows, kWidePanels, kAccumulators, panels_of(m), kAheadRows: as in linear_float.inl

constexpr int kTurn = 4;  ///< units of a turn of the loop

#include "kernels/generic/prefetch.inl"

struct Tile {
  const char* panel;  ///< first panel
  int64_t panel_stride;
  const char* row;  ///< first prepared row
  int64_t row_stride;
  int64_t groups;
  float* y;
  int64_t ldy;
  const float* bias;
  bool add;
  int columns;
  int64_t turns;  ///< of the loop over a panel, whole ones
  Ahead ahead;
};

#include "kernels/generic/outputs.inl"

#include "kernels/generic/cursor.inl"

/// kTurn units of the group: x stands at their values.
template <int M, int P>
OCTAVO_INLINE void turn(Cursor<M>& at, IVec (&sum)[M][P * kVecs]) {
  constexpr int kBytes = kTurn * kPanel * kQuad * kBits / 8;
  at.hide();
  at.ahead.template turn<M, P, kBytes>(at.panel_stride);
#pragma GCC unroll 8
  for (int u = 0; u < kTurn; ++u)
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      IVec weights[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        weights[v] = unit_weights<M * P * kVecs == kAccumulators>(at.weights + p * at.panel_stride, u, v);
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r)
        unit_row(sum[r] + p * kVecs, reinterpret_cast<const uint32_t*>(at.row(r)) + u, weights);
    }
  at.weights += kBytes;
  at.advance_rows(kTurn * 4);
}

/// Not inlined: see linear_float.inl.
template <int M, int P>
[[gnu::noinline]] void tile(const Tile& t) {
  Vec kept[M][P * kVecs];
  alignas(64) float waiting[M][P * kPanel];
  auto each = [&](auto f) __attribute__((always_inline)) {
#pragma GCC unroll 64
    for (int v = 0; v < P * kVecs; ++v)
#pragma GCC unroll 64
      for (int r = 0; r < M; ++r) f(r, v, kept[r][v], waiting[r] + v * kLanes);
  };
  each([](int, int, Vec& here, float* there) __attribute__((always_inline)) {
    if constexpr (kKeepResults)
      here = zero();
    else
      store(there, zero());
  });
  Cursor<M> at{t.panel, t.ahead, {}, t.panel_stride, t.row_stride};
#pragma GCC unroll 64
  for (int i = 0; i < (M + 2) / 3; ++i) at.x[i] = t.row + 3 * i * t.row_stride;
  for (int64_t g = 0; g < t.groups; ++g) {
    if constexpr (!kKeepResults) __asm__ volatile("" : : "r"(waiting) : "memory");
    IVec sum[M][P * kVecs];
#pragma GCC unroll 64
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 64
      for (int v = 0; v < P * kVecs; ++v)
        sum[r][v] =
            kUnsigned || kPairs ? set_int(reinterpret_cast<const GroupHeader*>(at.row(r))->start) : izero();
    at.weights += kScaleBytes;
    at.advance_rows(sizeof(GroupHeader));
#pragma GCC unroll 1
    for (int u = 0; u < kGroup / kQuad; u += kTurn) turn<M, P>(at, sum);
    const char* head = at.weights - kGroupBytes;
    Vec scale;
    each([&](int r, int v, Vec& here, float* there) __attribute__((always_inline)) {
      if (r == 0)
        scale = load_half(reinterpret_cast<const uint16_t*>(head + v / kVecs * t.panel_stride) +
                          v % kVecs * kLanes);
      const Vec x_scale = broadcast(reinterpret_cast<const float*>(at.row(r) - kRecordBytes));
      const Vec value = to_float(widen(sum[r][v])) * x_scale;
      if constexpr (kKeepResults)
        fma_into(here, value, scale);
      else
        store(there, fma(value, scale, load(there)));
    });
  }
  if constexpr (!kKeepResults)
    each([](int, int, Vec& here, float* there) __attribute__((always_inline)) { here = load(there); });
  store_outputs<M, P * kVecs>(
      t, [&](int v) __attribute__((always_inline)) {
        return [&, v ](int r) __attribute__((always_inline)) { return kept[r][v]; };
      });
}

Tile tile_of(const LinearRun& a) {
  Tile t{};
  t.panel_stride = panel_bytes(a.shape);
  t.row_stride = row_bytes(a.shape);
  t.groups = a.shape.k / kGroup;
  t.turns = t.groups * (kGroup / kQuad / kTurn);
  t.ldy = a.ldy;
  t.add = a.accumulate;
  return t;
}

#include "kernels/generic/panel_tiles.inl"

void run(const LinearRun& a) { run_panels(a); }
