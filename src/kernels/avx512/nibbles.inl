#include "kernels/avx512/ivec.inl"

// As assembly for the reason given in avx2/dot4.inl.
template <bool>
OCTAVO_INLINE IVec low_nibbles(const char* p) {
  IVec out;
  __asm__("vpandd %1, %2, %0"
          : "=v"(out.v)
          : "m"(*reinterpret_cast<const __m512i_u*>(p)), "v"(_mm512_set1_epi8(15)));
  return out;
}
template <bool>
OCTAVO_INLINE IVec high_nibbles(const char* p) {
  IVec out;
  __asm__("vpsrlw $4, %1, %0\n\tvpandd %2, %0, %0"
          : "=&v"(out.v)
          : "m"(*reinterpret_cast<const __m512i_u*>(p)), "v"(_mm512_set1_epi8(15)));
  return out;
}
