// Vec of AVX2 + FMA: eight floats. The contract of the operations is in scalar/vec.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define OCTAVO_INLINE inline __attribute__((always_inline))

namespace octavo::kernels::avx2 {
namespace {

struct Vec {
  __m256 v;
};
struct Mask {
  __m256 v;
};
constexpr int kLanes = 8;
constexpr int kScoreRows =
    6;  ///< rows of a register tile of attention: 6 x 2 accumulators, 2 keys, broadcast, mask

OCTAVO_INLINE Vec zero() { return {_mm256_setzero_ps()}; }
OCTAVO_INLINE Vec set1(float x) { return {_mm256_set1_ps(x)}; }
OCTAVO_INLINE Vec broadcast(const float* p) { return {_mm256_broadcast_ss(p)}; }
OCTAVO_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
OCTAVO_INLINE void store(float* p, Vec a) { _mm256_storeu_ps(p, a.v); }
OCTAVO_INLINE __m256i lane_index() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
OCTAVO_INLINE __m256i first_mask(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane_index()); }
OCTAVO_INLINE Vec load_first(const float* p, int n) { return {_mm256_maskload_ps(p, first_mask(n))}; }
OCTAVO_INLINE void store_first(float* p, Vec a, int n) { _mm256_maskstore_ps(p, first_mask(n), a.v); }
OCTAVO_INLINE float first(Vec a) { return _mm256_cvtss_f32(a.v); }

OCTAVO_INLINE Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
/// sum += a * b in place. As assembly because GCC 12, given the intrinsic, lets twelve accumulators wander
/// between registers and spills four of them per step of the 6x16 tile (63 % of peak instead of 9x %).
OCTAVO_INLINE void fma_into(Vec& sum, Vec a, Vec b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum.v) : "x"(a.v), "x"(b.v));
}
/// The same with one float for all lanes.
OCTAVO_INLINE void fma_broadcast_into(Vec& sum, const float* a, Vec b) { fma_into(sum, broadcast(a), b); }
OCTAVO_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }
OCTAVO_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
OCTAVO_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.v), _mm256_and_ps(bit, sign.v))};
}

OCTAVO_INLINE Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
OCTAVO_INLINE Mask operator>=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
OCTAVO_INLINE Mask not_less(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NLT_UQ)}; }
OCTAVO_INLINE Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
OCTAVO_INLINE Mask unordered(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_UNORD_Q)}; }
OCTAVO_INLINE Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec select(Mask m, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, m.v)}; }
OCTAVO_INLINE Vec keep(Mask m, Vec a) { return {_mm256_and_ps(m.v, a.v)}; }
OCTAVO_INLINE uint32_t bits(Mask m) { return static_cast<uint32_t>(_mm256_movemask_ps(m.v)); }
OCTAVO_INLINE Mask lanes_between(int begin, int end) {
  const __m256i i = lane_index();
  return {_mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(begin), i),
                                                  _mm256_cmpgt_epi32(_mm256_set1_epi32(end), i)))};
}

OCTAVO_INLINE float reduce_add(Vec a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
OCTAVO_INLINE float reduce_max(Vec a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

OCTAVO_INLINE Vec pow2(Vec n_bits) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n_bits.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)))};
}

OCTAVO_INLINE __m256i load_raw(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
/// Pairs of bf16 in 32-bit lanes to float: the low and the high half of each lane.
OCTAVO_INLINE Vec bf16_low(const uint32_t* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(load_raw(p), 16))};
}
OCTAVO_INLINE Vec bf16_high(const uint32_t* p) {
  return {
      _mm256_castsi256_ps(_mm256_and_si256(load_raw(p), _mm256_set1_epi32(static_cast<int>(0xffff0000u))))};
}
OCTAVO_INLINE Vec load_bf16(const uint16_t* p) {
  __m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(x, 16))};
}
OCTAVO_INLINE void store_bf16(uint16_t* p, Vec a) {
  const __m256i x = _mm256_castps_si256(a.v), high = _mm256_srli_epi32(x, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i r = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(unordered(a, a).v));
  const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}
OCTAVO_INLINE Vec load_s8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))};
}
// The code's seven bits become the top of a float16's exponent and mantissa (bias 15, not 7: hence 2^-8), its
// sign extends to bit 15. Unlike a shift into a float's fields and a multiplication, VCVTPH2PS takes
// subnormals at full speed everywhere.
OCTAVO_INLINE Vec load_e4m3(const uint8_t* p) {
  const __m128i x = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_cvtph_ps(_mm_and_si128(_mm_slli_epi16(x, 7), _mm_set1_epi16(static_cast<short>(0xbf80))))};
}
OCTAVO_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace
}  // namespace octavo::kernels::avx2
