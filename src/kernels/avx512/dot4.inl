// Unsigned weights of 4 bits by int8 without VNNI: see avx2/dot4.inl.
constexpr bool kPairs = true, kUnpackAhead = false, kKeepResults = true;

#include "kernels/avx512/nibbles.inl"

constexpr int kVecs = 1;  ///< vectors of a panel

OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __m512i product;
  __asm__("vpmaddubsw %2, %3, %1\n\tvpaddw %1, %0, %0"
          : "+v"(sum.v), "=&v"(product)
          : "v"(value.v), "v"(weights.v));
}
OCTAVO_INLINE void dot_row(IVec* sum, const uint32_t* x, const IVec* weights) {
  __m512i value;
  __asm__(
      "vpbroadcastd %2, %1\n\t"
      "vpmaddubsw %1, %3, %1\n\t"
      "vpaddw %1, %0, %0"
      : "+v"(sum->v), "=&v"(value)
      : "m"(*x), "v"(weights->v));
}
OCTAVO_INLINE IVec widen(IVec sum) { return {_mm512_madd_epi16(sum.v, _mm512_set1_epi16(1))}; }
