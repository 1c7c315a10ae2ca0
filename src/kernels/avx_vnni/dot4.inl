// Unsigned weights of 4 bits by int8: VPDPBUSD in its VEX form.
constexpr bool kPairs = false, kUnpackAhead = false, kKeepResults = false;

#include "kernels/avx2/ivec.inl"

constexpr int kVecs = 2;  ///< vectors of a panel

// As assembly for the reason given in avx2/dot4.inl; without a product there is a register for the mask.
template <bool>
OCTAVO_INLINE IVec low_nibbles(const char* p) {
  IVec out;
  __asm__("vpand %1, %2, %0"
          : "=x"(out.v)
          : "m"(*reinterpret_cast<const __m256i_u*>(p)), "x"(_mm256_set1_epi8(15)));
  return out;
}
template <bool>
OCTAVO_INLINE IVec high_nibbles(const char* p) {
  IVec out;
  __asm__("vmovdqu %1, %0\n\tvpsrlw $4, %0, %0\n\tvpand %2, %0, %0"
          : "=&x"(out.v)
          : "m"(*reinterpret_cast<const __m256i_u*>(p)), "x"(_mm256_set1_epi8(15)));
  return out;
}
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __asm__("%{vex%} vpdpbusd %1, %2, %0" : "+x"(sum.v) : "x"(value.v), "x"(weights.v));
}
OCTAVO_INLINE void dot_row(IVec* sum, const uint32_t* x, const IVec* weights) {
  __m256i value;
  __asm__(
      "vpbroadcastd %3, %2\n\t"
      "%{vex%} vpdpbusd %2, %4, %0\n\t"
      "%{vex%} vpdpbusd %2, %5, %1"
      : "+x"(sum[0].v), "+x"(sum[1].v), "=&x"(value)
      : "m"(*x), "x"(weights[0].v), "x"(weights[1].v));
}
OCTAVO_INLINE IVec widen(IVec sum) { return sum; }
