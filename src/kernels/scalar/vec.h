// Vec of the fallback: four floats in the compiler's portable vector type (SSE2 on any x86-64, NEON on any
// AArch64, plain floats elsewhere). The operations are the contract that every ISA's vec.h fulfils for
// generic/*.inl:
//   min and max return the second operand if either is NaN;
//   reduce_* fold halves (lane i with lane i + n/2), so that the order is fixed;
//   bf16_low and bf16_high take one bfloat16 of each 32-bit lane.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#define OCTAVO_INLINE inline __attribute__((always_inline))

namespace octavo::kernels::scalar {
namespace {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));
using UInt4 = uint32_t __attribute__((vector_size(16)));

struct Vec {
  Float4 v;
};
struct Mask {
  Int4 v;
};
constexpr int kLanes = 4;
constexpr int kScoreRows = 2;  ///< rows of a register tile of attention: 2 x 16 keys fill the 16 registers

OCTAVO_INLINE Vec zero() { return {Float4{}}; }
OCTAVO_INLINE Vec set1(float x) { return {Float4{x, x, x, x}}; }
OCTAVO_INLINE Vec broadcast(const float* p) { return set1(*p); }
OCTAVO_INLINE Vec load(const float* p) {
  Vec r;
  std::memcpy(&r, p, sizeof r);
  return r;
}
OCTAVO_INLINE void store(float* p, Vec a) { std::memcpy(p, &a, sizeof a); }
/// n in [0, kLanes): the other lanes are zero, and memory beyond is not touched.
OCTAVO_INLINE Vec load_first(const float* p, int n) {
  Vec r = zero();
  for (int i = 0; i < n; ++i) r.v[i] = p[i];
  return r;
}
OCTAVO_INLINE void store_first(float* p, Vec a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
OCTAVO_INLINE float first(Vec a) { return a.v[0]; }

OCTAVO_INLINE Vec add(Vec a, Vec b) { return {a.v + b.v}; }
OCTAVO_INLINE Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
OCTAVO_INLINE Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
OCTAVO_INLINE Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
OCTAVO_INLINE Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
OCTAVO_INLINE Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }  ///< a * b + c
OCTAVO_INLINE void fma_into(Vec& sum, Vec a, Vec b) { sum.v += a.v * b.v; }
OCTAVO_INLINE Vec fnma(Vec a, Vec b, Vec c) { return {c.v - a.v * b.v}; }  ///< c - a * b
OCTAVO_INLINE Vec max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
OCTAVO_INLINE Vec min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
OCTAVO_INLINE Vec abs(Vec a) { return {(Float4)((Int4)a.v & 0x7fffffff)}; }
OCTAVO_INLINE Vec copy_sign(Vec magnitude, Vec sign) {
  return {(Float4)(((Int4)magnitude.v & 0x7fffffff) | ((Int4)sign.v & INT32_MIN))};
}

OCTAVO_INLINE Mask operator<(Vec a, Vec b) { return {a.v < b.v}; }
OCTAVO_INLINE Mask operator>=(Vec a, Vec b) { return {a.v >= b.v}; }
OCTAVO_INLINE Mask not_less(Vec a, Vec b) { return {~(a.v < b.v)}; }  ///< true if either is NaN
OCTAVO_INLINE Mask operator==(Vec a, Vec b) { return {a.v == b.v}; }
OCTAVO_INLINE Mask unordered(Vec a, Vec b) { return {(a.v != a.v) | (b.v != b.v)}; }  ///< either is NaN
OCTAVO_INLINE Mask operator|(Mask a, Mask b) { return {a.v | b.v}; }
OCTAVO_INLINE Vec select(Mask m, Vec a, Vec b) { return {m.v ? a.v : b.v}; }
OCTAVO_INLINE Vec keep(Mask m, Vec a) { return {(Float4)(m.v & (Int4)a.v)}; }  ///< a where m, else +0
OCTAVO_INLINE uint32_t bits(Mask m) { return (m.v[0] & 1) | (m.v[1] & 2) | (m.v[2] & 4) | (m.v[3] & 8); }
/// Lanes whose index i satisfies begin <= i < end.
OCTAVO_INLINE Mask lanes_between(int begin, int end) {
  const Int4 i = {0, 1, 2, 3};
  return {(i >= begin) & (i < end)};
}

OCTAVO_INLINE float reduce_add(Vec a) { return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]); }
OCTAVO_INLINE float reduce_max(Vec a) {
  float x = a.v[0] > a.v[2] ? a.v[0] : a.v[2], y = a.v[1] > a.v[3] ? a.v[1] : a.v[3];
  return x > y ? x : y;
}

/// 2^n for -126 <= n <= 127, n in the low bits of the float n_bits (see exp.inl).
OCTAVO_INLINE Vec pow2(Vec n_bits) { return {(Float4)(((UInt4)n_bits.v << 23) + 0x3f800000u)}; }

/// Pairs of bf16 in 32-bit lanes to float: the low and the high half of each lane.
OCTAVO_INLINE Vec bf16_low(const uint32_t* p) {
  UInt4 x;
  std::memcpy(&x, p, sizeof x);
  return {(Float4)(x << 16)};
}
OCTAVO_INLINE Vec bf16_high(const uint32_t* p) {
  UInt4 x;
  std::memcpy(&x, p, sizeof x);
  return {(Float4)(x & 0xffff0000u)};
}
OCTAVO_INLINE Vec load_bf16(const uint16_t* p) {
  return {(
      Float4)(UInt4{uint32_t{p[0]} << 16, uint32_t{p[1]} << 16, uint32_t{p[2]} << 16, uint32_t{p[3]} << 16})};
}
/// Rounds to nearest even; NaN stays NaN.
OCTAVO_INLINE void store_bf16(uint16_t* p, Vec a) {
  UInt4 x = (UInt4)a.v;
  UInt4 rounded = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16, nan = (x >> 16) | 0x40u;
  UInt4 r = (UInt4)(a.v != a.v ? (Int4)nan : (Int4)rounded);
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint16_t>(r[i]);
}
/// Signed bytes to float.
OCTAVO_INLINE Vec load_s8(const int8_t* p) {
  return {Float4{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                 static_cast<float>(p[3])}};
}
/// FP8 e4m3 to float, times 2^-8 (what is left of the way over float16). The NaN code 0x7f counts as 480 *
/// 2^-8.
OCTAVO_INLINE Vec load_e4m3(const uint8_t* p) {
  const UInt4 x = {p[0], p[1], p[2], p[3]};
  const Float4 magnitude =
      (Float4)((x & 0x7fu) << 20) * 0x1p112f;  // the exponent's bias is 120 more; subnormals too
  return {(Float4)((UInt4)magnitude | ((x & 0x80u) << 24))};
}
OCTAVO_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

}  // namespace
}  // namespace octavo::kernels::scalar
