// int8 products without VNNI: see avx2/dot.inl.
constexpr int kQuad = 2;
constexpr bool kUnsigned = false;

#include "kernels/avx512/ivec.inl"

OCTAVO_INLINE IVec dot_weights(const int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  sum.v = _mm512_add_epi32(sum.v, _mm512_madd_epi16(value.v, weights.v));
}
