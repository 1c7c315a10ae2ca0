// Sixteen int32 in a register.
struct IVec {
  __m512i v;
};
OCTAVO_INLINE IVec izero() { return {_mm512_setzero_si512()}; }
OCTAVO_INLINE Vec to_float(IVec a) { return {_mm512_cvtepi32_ps(a.v)}; }
OCTAVO_INLINE IVec load_int(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
OCTAVO_INLINE IVec set_int(int32_t x) { return {_mm512_set1_epi32(x)}; }
OCTAVO_INLINE IVec operator-(IVec a, IVec b) { return {_mm512_sub_epi32(a.v, b.v)}; }
OCTAVO_INLINE IVec operator*(IVec a, IVec b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
OCTAVO_INLINE IVec dot_value(const uint32_t* x) { return {_mm512_set1_epi32(static_cast<int>(*x))}; }
OCTAVO_INLINE IVec operator+(IVec a, IVec b) { return {_mm512_add_epi32(a.v, b.v)}; }
OCTAVO_INLINE void store_int(int32_t* p, IVec a) { _mm512_storeu_si512(p, a.v); }
OCTAVO_INLINE IVec load_int16(const int16_t* p) {
  return {_mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE Vec load_half(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE IVec load_bytes(const char* p) { return {_mm512_loadu_si512(p)}; }
