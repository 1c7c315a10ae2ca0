// int8 products by VPDPBUSD in its VEX form (Alder Lake and later without AVX-512): see avx512_vnni/dot.inl.
constexpr int kQuad = 4;
constexpr bool kUnsigned = true;

#include "kernels/avx2/ivec.inl"

OCTAVO_INLINE IVec dot_weights(const int8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.v) : "x"(value.v), "x"(weights.v));
}
