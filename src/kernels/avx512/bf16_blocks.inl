// Block formats for the levels that multiply BF16 (avx512_bf16, amx): activations rounded to BF16, and the
// codes that float_blocks.inl's shifts do not serve best. Include inside the folder's anonymous namespace,
// after vec.h and kSplitRows.

#include "kernels/avx512/codes.inl"

using Element = uint16_t;
constexpr float kE4m3Scale = 256;
constexpr bool kOffsetInSum = true;  // rounding inputs costs far more
OCTAVO_INLINE Vec keep(const float* x, Element* to) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(load(x).v));
  return load_bf16(to);
}

#include "kernels/generic/float_blocks.inl"

/// Of 16 bits, by the lowest five of each lane of x.
struct Table {
  alignas(64) uint16_t values[32];
  OCTAVO_INLINE __m512i look_up(__m512i x) const {
    return _mm512_permutexvar_epi16(x, _mm512_load_si512(values));
  }
};

/// The 16 values that a format's codes stand for, twice.
template <class F>
constexpr Table table_of() {
  Table out{};
  for (int i = 0; i < 32; ++i)
    out.values[i] = static_cast<uint16_t>(bits_of(static_cast<float>(nibble_value<F>(i % 16))) >> 16);
  return out;
}
template <class F>
constexpr Table kTableOf = table_of<F>();

template <class F>
requires(F::kLow == 4 && F::kHigh == 0) struct OwnPair<F> {
  static constexpr bool kHas = true;
  OCTAVO_INLINE static Codes get(const char* planes, int j, int odd, int lane) {
    Codes x;
    __builtin_memcpy(&x, planes + j / 2 * kQuadBytes + lane, sizeof x);
    return (Codes)kTableOf<F>.look_up((__m512i)(x >> (4 * (j % 2) + 8 * odd)));
  }
};

/// Times 2^-8, which leaves the exponent's bias a multiple of 16 more: no addition. Subnormals by a table.
constexpr Table kE4m3Subnormals = {{0, 0x3700, 0x3780, 0x37c0, 0x3800, 0x3820, 0x3840, 0x3860}};
template <>
struct OwnPair<FP8> {
  static constexpr bool kHas = true;
  OCTAVO_INLINE static Codes get(const char* planes, int j, int odd, int lane) {
    const Codes x = quad_codes<FP8>(planes, j, lane);
    const __m512i byte = (__m512i)(odd ? x >> 8 : x), top = (__m512i)(odd ? x : x << 8);
    constexpr int kAndOr = 0xea, kOrAnd = 0xf8;  // a & b | c, a | b & c
    __m512i bits = _mm512_ternarylogic_epi32(_mm512_slli_epi16(byte, 4), _mm512_set1_epi16(0x07f0),
                                             _mm512_set1_epi16(0x3800), kAndOr);
    const __mmask32 subnormal = _mm512_testn_epi16_mask(byte, _mm512_set1_epi16(0x78));
    bits = _mm512_mask_mov_epi16(bits, subnormal, kE4m3Subnormals.look_up(byte));
    return (Codes)_mm512_ternarylogic_epi32(bits, top, _mm512_set1_epi16(INT16_MIN), kOrAnd);
  }
};
