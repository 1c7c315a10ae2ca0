// What linear_panel_blocks.inl multiplies with float activations. Include inside the folder's anonymous
// namespace, after float_blocks.inl.
// Where kPermutes, permuted(const float* table, Ints x) picks from 16 floats by the lowest four bits of each
// lane, in one instruction.

using Sum = Vec;               ///< and kVecs vectors of a panel's weights
constexpr int kUnit = 1;       ///< inputs that one 32-bit lane multiplies
constexpr int kCodeBytes = 2;  ///< of an unpacked code
constexpr bool kKeepResults = kLanes == 16;

constexpr int kVecs = kPanel / kLanes;  ///< vectors of a panel

/// Vector v of unpacked input u.
OCTAVO_INLINE Vec unpacked_unit(const char* codes, int u, int v) {
  const uint32_t* pair = reinterpret_cast<const uint32_t*>(codes + u / 2 * kQuadBytes) + v * kLanes;
  return u % 2 ? bf16_high(pair) : bf16_low(pair);
}
/// The weights that 16 codes stand for.
template <class F>
struct NibbleValues {
  alignas(64) float of[16] = {};
  constexpr NibbleValues() {
    for (int i = 0; i < 16; ++i) of[i] = nibble_value<F>(i);
  }
};
template <class F>
constexpr NibbleValues<F> kNibbleValues;

/// Vector v of input u of a chunk's planes.
template <class F>
OCTAVO_INLINE Vec packed_unit(const char* planes, int u, int v) {
  const int lane = v * kLanes * 4;
  if constexpr (kPermutes && F::kLow == 4 && F::kHigh == 0) {
    Ints x;
    __builtin_memcpy(&x, planes + u / 8 * kQuadBytes + lane, sizeof x);
    return permuted(kNibbleValues<F>.of, x >> (u / 4 % 2 * 4 + byte_of(u % 4) * 8));
  }
  Floats out;
  if constexpr (F::kValues != Values::kCodes) {
    out = byte_value<F>(planes, u / 4, byte_of(u % 4), lane);
  } else {
    out = exact_half<F>(pair_of<F>(planes, u / 2, lane), u % 2);
  }
  Vec vec;
  __builtin_memcpy(&vec, &out, sizeof vec);
  return vec;
}
OCTAVO_INLINE void dot_row(Vec* sum, const uint32_t* x, const Vec* weights) {
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) fma_broadcast_into(sum[v], reinterpret_cast<const float*>(x), weights[v]);
}
constexpr int kDirectGroups = 2;
constexpr int64_t kCachedBytes = 640 << 10;
