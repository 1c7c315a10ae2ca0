// Eight floats in a register. Only for this folder's files: everything is in an anonymous namespace.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace octavo::kernels::avx2 {
namespace {

using Vec = __m256;
constexpr int kLanes = 8;

inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline Vec broadcast(const float* p) { return _mm256_broadcast_ss(p); }
inline Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }  ///< a * b + c
/// sum += a * b in place. As assembly because GCC 12, given the intrinsic, lets twelve accumulators wander between registers
/// and spills four of them per step of the 6x16 tile (63 % of peak instead of 9x %).
inline void fma_into(Vec& sum, Vec a, Vec b) { __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b)); }

/// The first `count` lanes on, clipped to [0, 8].
inline __m256i lane_mask(int count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load_first(const float* p, int count) { return _mm256_maskload_ps(p, lane_mask(count)); }
inline void store_first(float* p, Vec v, int count) { _mm256_maskstore_ps(p, lane_mask(count), v); }

/// Pairs of bf16 in 32-bit lanes to float: the low and the high half of each lane.
inline Vec bf16_low(const uint32_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), 16));
}
inline Vec bf16_high(const uint32_t* p) {
  return _mm256_and_ps(_mm256_castsi256_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))),
                       _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

}  // namespace
}  // namespace octavo::kernels::avx2
