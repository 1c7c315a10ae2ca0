// What linear_groups.inl multiplies, for weights of 4 bits. Include inside the folder's anonymous namespace
// after its dot4.inl and vec.h.
constexpr int kBits = 4, kQuad = 4;
constexpr bool kUnsigned = true;

/// Vector v of unit u (4 k) of a panel. kFull: sums fill the registers.
template <bool kFull>
OCTAVO_INLINE IVec unit_weights(const char* body, int u, int v) {
  const char* from = body + (u / 2 * 16 + v * kLanes) * 4;
  return u % 2 ? high_nibbles<kFull>(from) : low_nibbles<kFull>(from);
}
OCTAVO_INLINE void unit_row(IVec* sum, const uint32_t* x, const IVec* weights) { dot_row(sum, x, weights); }
