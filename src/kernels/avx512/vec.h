// Vec of AVX-512 F, BW, VL, DQ: sixteen floats. Only for this folder's files: everything is in an anonymous
// namespace. The contract of the operations is in scalar/vec.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#define OCTAVO_INLINE inline __attribute__((always_inline))

namespace octavo::kernels::avx512 {
namespace {

struct Vec {
  __m512 v;
};
struct Mask {
  __mmask16 v;
};
constexpr int kLanes = 16;
constexpr int kScoreRows =
    12;  ///< rows of a register tile of attention: 12 x 2 accumulators, 2 keys, broadcast, mask

OCTAVO_INLINE Vec zero() { return {_mm512_setzero_ps()}; }
OCTAVO_INLINE Vec set1(float x) { return {_mm512_set1_ps(x)}; }
OCTAVO_INLINE Vec broadcast(const float* p) { return {_mm512_set1_ps(*p)}; }
OCTAVO_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
OCTAVO_INLINE void store(float* p, Vec a) { _mm512_storeu_ps(p, a.v); }
/// The first `count` lanes on, clipped to [0, 16].
OCTAVO_INLINE __mmask16 lane_mask(int count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}
OCTAVO_INLINE Vec load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(lane_mask(n), p)}; }
OCTAVO_INLINE void store_first(float* p, Vec a, int n) { _mm512_mask_storeu_ps(p, lane_mask(n), a.v); }
OCTAVO_INLINE float first(Vec a) { return _mm512_cvtss_f32(a.v); }

OCTAVO_INLINE Vec add(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// sum += a * b in place; as assembly for the reason given in avx2/vec.h.
OCTAVO_INLINE void fma_into(Vec& sum, Vec a, Vec b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
}
/// The same with one float for all lanes: a load less to issue than with broadcast().
OCTAVO_INLINE void fma_broadcast_into(Vec& sum, const float* a, Vec b) {
  __asm__("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum.v) : "m"(*a), "v"(b.v));
}
OCTAVO_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
OCTAVO_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
OCTAVO_INLINE Vec abs(Vec a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)}; }
OCTAVO_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v), _mm512_and_ps(bit, sign.v))};
}

OCTAVO_INLINE Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
OCTAVO_INLINE Mask operator>=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
OCTAVO_INLINE Mask not_less(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NLT_UQ)}; }
OCTAVO_INLINE Mask unordered(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_UNORD_Q)}; }
OCTAVO_INLINE Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.v | b.v)}; }
OCTAVO_INLINE Vec select(Mask m, Vec a, Vec b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
OCTAVO_INLINE Vec keep(Mask m, Vec a) { return {_mm512_maskz_mov_ps(m.v, a.v)}; }
OCTAVO_INLINE uint32_t bits(Mask m) { return m.v; }
OCTAVO_INLINE Mask lanes_between(int begin, int end) {
  return {static_cast<__mmask16>(lane_mask(end) & ~lane_mask(begin))};
}

OCTAVO_INLINE float reduce_add(Vec a) {
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
OCTAVO_INLINE float reduce_max(Vec a) {
  const __m256 y = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

OCTAVO_INLINE Vec pow2(Vec n_bits) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n_bits.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)))};
}

/// Pairs of bf16 in 32-bit lanes to float: the low and the high half of each lane.
OCTAVO_INLINE Vec bf16_low(const uint32_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
}
OCTAVO_INLINE Vec bf16_high(const uint32_t* p) {
  return {_mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000u))))};
}
OCTAVO_INLINE Vec load_bf16(const uint16_t* p) {
  const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(x, 16))};
}
OCTAVO_INLINE void store_bf16(uint16_t* p, Vec a) {
  const __m512i x = _mm512_castps_si512(a.v), high = _mm512_srli_epi32(x, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  const __m512i r = _mm512_mask_blend_epi32(unordered(a, a).v, rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(r));
}
OCTAVO_INLINE Vec load_s8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
/// As in avx2/vec.h.
OCTAVO_INLINE Vec load_e4m3(const uint8_t* p) {
  const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm512_cvtph_ps(
      _mm256_and_si256(_mm256_slli_epi16(x, 7), _mm256_set1_epi16(static_cast<short>(0xbf80))))};
}
OCTAVO_INLINE void prefetch_l2(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

}  // namespace
}  // namespace octavo::kernels::avx512
