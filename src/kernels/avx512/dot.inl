// int8 products without VNNI: see avx2/dot.inl.
constexpr int kQuad = 2;
constexpr bool kUnsigned = false;

#include "kernels/avx512/ivec.inl"

OCTAVO_INLINE IVec dot_weights(const int8_t* p) {
  return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __m512i product;
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
          : "+v"(sum.v), "=&v"(product)
          : "v"(value.v), "v"(weights.v));
}
