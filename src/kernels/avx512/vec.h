// Sixteen floats in a register. Only for this folder's files: everything is in an anonymous namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace octavo::kernels::avx512 {
namespace {

using Vec = __m512;
constexpr int kLanes = 16;

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline Vec broadcast(const float* p) { return _mm512_set1_ps(*p); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }  ///< a * b + c
/// sum += a * b in place; as assembly for the reason given in avx2/vec.h.
inline void fma_into(Vec& sum, Vec a, Vec b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}

/// The first `count` lanes on, clipped to [0, 16].
inline __mmask16 lane_mask(int count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}
inline Vec load_first(const float* p, int count) { return _mm512_maskz_loadu_ps(lane_mask(count), p); }
inline void store_first(float* p, Vec v, int count) { _mm512_mask_storeu_ps(p, lane_mask(count), v); }

/// Pairs of bf16 in 32-bit lanes to float: the low and the high half of each lane.
inline Vec bf16_low(const uint32_t* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
inline Vec bf16_high(const uint32_t* p) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

}  // namespace
}  // namespace octavo::kernels::avx512
