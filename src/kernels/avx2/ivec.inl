// Eight int32 in a register.
struct IVec {
  __m256i v;
};
OCTAVO_INLINE IVec izero() { return {_mm256_setzero_si256()}; }
OCTAVO_INLINE Vec to_float(IVec a) { return {_mm256_cvtepi32_ps(a.v)}; }
OCTAVO_INLINE IVec load_int(const int32_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
OCTAVO_INLINE IVec set_int(int32_t x) { return {_mm256_set1_epi32(x)}; }
OCTAVO_INLINE IVec operator-(IVec a, IVec b) { return {_mm256_sub_epi32(a.v, b.v)}; }
OCTAVO_INLINE IVec operator*(IVec a, IVec b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
OCTAVO_INLINE IVec dot_value(const uint32_t* x) { return {_mm256_set1_epi32(static_cast<int>(*x))}; }
OCTAVO_INLINE IVec operator+(IVec a, IVec b) { return {_mm256_add_epi32(a.v, b.v)}; }
OCTAVO_INLINE void store_int(int32_t* p, IVec a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.v); }
OCTAVO_INLINE IVec load_int16(const int16_t* p) {
  return {_mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE Vec load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE IVec load_bytes(const char* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))};
}
