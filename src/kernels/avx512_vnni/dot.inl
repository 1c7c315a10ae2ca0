// int8 products by VPDPBUSD: four unsigned by signed bytes into 32 bits without saturation; activations are x
// + 128 and the panel's correction takes 128 * sum(w) away again. The sum may wrap, the corrected result fits
// (k < 130,000).
constexpr int kQuad = 4;
constexpr bool kUnsigned = true;

#include "kernels/avx512/ivec.inl"

OCTAVO_INLINE IVec dot_weights(const int8_t* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __asm__("vpdpbusd %2, %1, %0" : "+v"(sum.v) : "v"(value.v), "v"(weights.v));
}
