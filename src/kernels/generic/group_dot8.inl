// What linear_groups.inl multiplies, for weights of 8 bits. Include inside the folder's anonymous namespace
// after its dot.inl and vec.h.
constexpr int kBits = 8, kVecs = 16 / kLanes;
constexpr bool kPairs = false;

/// Vector v of unit u (kQuad k) of a panel.
template <bool>
OCTAVO_INLINE IVec unit_weights(const char* body, int u, int v) {
  return dot_weights(reinterpret_cast<const int8_t*>(body) + (u * 16 + v * kLanes) * kQuad);
}
OCTAVO_INLINE void unit_row(IVec* sum, const uint32_t* x, const IVec* weights) {
  const IVec value = dot_value(x);
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) dot_into(sum[v], weights[v], value);
}
OCTAVO_INLINE IVec widen(IVec sum) { return sum; }
