// Unsigned weights of 4 bits by int8: VPDPBUSD takes both as they are.
constexpr bool kPairs = false, kUnpackAhead = false, kKeepResults = true;

#include "kernels/avx512/nibbles.inl"

constexpr int kVecs = 1;  ///< vectors of a panel

OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __asm__("vpdpbusd %1, %2, %0" : "+v"(sum.v) : "v"(value.v), "v"(weights.v));
}
OCTAVO_INLINE void dot_row(IVec* sum, const uint32_t* x, const IVec* weights) {
  __asm__("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(sum->v) : "m"(*x), "v"(weights->v));
}
OCTAVO_INLINE IVec widen(IVec sum) { return sum; }
