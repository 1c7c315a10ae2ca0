// int8 products without VNNI: weights widened to int16, then pairs multiplied and added to 32 bits
// (VPMADDWD). Exact over the full range, unlike VPMADDUBSW, whose 16-bit sums saturate (BL-40).
constexpr int kQuad = 2;
constexpr bool kUnsigned = false;

#include "kernels/avx2/ivec.inl"

OCTAVO_INLINE IVec dot_weights(const int8_t* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __m256i product;  // assembly for the reason given at fma_into in vec.h
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
          : "+x"(sum.v), "=&x"(product)
          : "x"(value.v), "x"(weights.v));
}
