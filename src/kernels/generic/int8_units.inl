// What linear_panel_blocks.inl multiplies in int8 arithmetic. Include inside the folder's anonymous
// namespace, after dot4.inl and int8_blocks.inl.

using Sum = IVec;              ///< and kVecs vectors of a panel's weights
constexpr int kUnit = 4;       ///< inputs that one 32-bit lane multiplies
constexpr int kCodeBytes = 1;  ///< of an unpacked code

/// Vector v of unpacked unit u.
OCTAVO_INLINE IVec unpacked_unit(const char* codes, int u, int v) {
  return load_bytes(codes + u * kQuadBytes + v * kLanes * 4);
}
/// The same of packed planes.
template <class F>
OCTAVO_INLINE IVec packed_unit(const char* planes, int u, int v) {
  const Codes x = quad_codes<F>(planes, u, v * kLanes * 4);
  IVec out;
  __builtin_memcpy(&out, &x, sizeof out);
  return out;
}
OCTAVO_INLINE IVec start_of(const GroupHeader* header) { return set_int(header->start); }
OCTAVO_INLINE Vec value_of(IVec sum, const GroupHeader* header) {
  return to_float(widen(sum)) * broadcast(&header->scale);
}
constexpr int kDirectGroups = 1;
constexpr int64_t kCachedBytes = int64_t{1} << 40;
