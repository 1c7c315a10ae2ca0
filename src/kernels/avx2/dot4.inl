// Unsigned weights of 4 bits by int8 without VNNI: VPMADDUBSW and VPADDW, 32 k in 16-bit lanes (int4.inl).
constexpr bool kPairs = true, kUnpackAhead = true, kKeepResults = false;

#include "kernels/avx2/ivec.inl"

constexpr int kVecs = 2;  ///< vectors of a panel

alignas(32) constexpr uint64_t kNibbles[4] = {0x0f0f0f0f0f0f0f0f, 0x0f0f0f0f0f0f0f0f, 0x0f0f0f0f0f0f0f0f,
                                              0x0f0f0f0f0f0f0f0f};

// As assembly: GCC would keep loaded bytes for their second half, and spill. With kFull the mask stays in
// memory: 12 sums, 2 weights, a value and a product fill the 16 registers.
template <bool kFull>
OCTAVO_INLINE IVec low_nibbles(const char* p) {
  IVec out;
  const __m256i_u& bytes = *reinterpret_cast<const __m256i_u*>(p);
  if constexpr (kFull)
    __asm__("vmovdqu %1, %0\n\tvpand %2, %0, %0" : "=&x"(out.v) : "m"(bytes), "m"(kNibbles));
  else
    __asm__("vpand %1, %2, %0" : "=x"(out.v) : "m"(bytes), "x"(_mm256_set1_epi8(15)));
  return out;
}
template <bool kFull>
OCTAVO_INLINE IVec high_nibbles(const char* p) {
  IVec out;
  const __m256i_u& bytes = *reinterpret_cast<const __m256i_u*>(p);
  if constexpr (kFull)
    __asm__("vmovdqu %1, %0\n\tvpsrlw $4, %0, %0\n\tvpand %2, %0, %0"
            : "=&x"(out.v)
            : "m"(bytes), "m"(kNibbles));
  else
    __asm__("vmovdqu %1, %0\n\tvpsrlw $4, %0, %0\n\tvpand %2, %0, %0"
            : "=&x"(out.v)
            : "m"(bytes), "x"(_mm256_set1_epi8(15)));
  return out;
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __m256i product;
  __asm__("vpmaddubsw %2, %3, %1\n\tvpaddw %1, %0, %0"
          : "+x"(sum.v), "=&x"(product)
          : "x"(value.v), "x"(weights.v));
}
/// One block, so that GCC has no choice of registers: given single products it copies sums around.
OCTAVO_INLINE void dot_row(IVec* sum, const uint32_t* x, const IVec* weights) {
  __m256i value, product;
  __asm__(
      "vpbroadcastd %4, %2\n\t"
      "vpmaddubsw %2, %5, %3\n\t"
      "vpmaddubsw %2, %6, %2\n\t"
      "vpaddw %3, %0, %0\n\t"
      "vpaddw %2, %1, %1"
      : "+x"(sum[0].v), "+x"(sum[1].v), "=&x"(value), "=&x"(product)
      : "m"(*x), "x"(weights[0].v), "x"(weights[1].v));
}
OCTAVO_INLINE IVec widen(IVec sum) { return {_mm256_madd_epi16(sum.v, _mm256_set1_epi16(1))}; }
