// int8 products without VNNI: weights widened to int16, then pairs multiplied and added to 32 bits
// (VPMADDWD). Exact over the full range, unlike VPMADDUBSW, whose 16-bit sums saturate (BL-40).
constexpr int kQuad = 2;
constexpr bool kUnsigned = false;

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

OCTAVO_INLINE IVec dot_weights(const int8_t* p) {
  return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE IVec dot_value(const uint32_t* x) { return {_mm256_set1_epi32(static_cast<int>(*x))}; }
OCTAVO_INLINE void dot_into(IVec& sum, IVec value, IVec weights) {
  __m256i product;  // assembly for the reason given at fma_into in vec.h
  __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(sum.v), "=&x"(product) : "x"(value.v), "x"(weights.v));
}
