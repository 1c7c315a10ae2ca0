// Scales and codes of packed panels (generic/panel_blocks.inl): the contract is in scalar/codes.inl.

OCTAVO_INLINE Vec load_f16(const uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}

OCTAVO_INLINE __m256i load_bytes(const uint8_t* p) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}
template <int kShift, int kMask>
OCTAVO_INLINE Vec load_field(const uint8_t* p) {
  __m256i x = load_bytes(p);
  if constexpr (kShift) x = _mm256_srli_epi32(x, kShift);
  if constexpr (kMask < 255 >> kShift) x = _mm256_and_si256(x, _mm256_set1_epi32(kMask));
  return {_mm256_cvtepi32_ps(x)};
}
template <int kMask>
OCTAVO_INLINE Vec load_split(const uint8_t* high, const uint8_t* rest) {
  const __m256i upper =
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(high))), 16);
  const __m256i lower = _mm256_slli_epi32(_mm256_and_si256(load_bytes(rest), _mm256_set1_epi32(kMask)), 8);
  return {_mm256_castsi256_ps(_mm256_or_si256(upper, lower))};
}
OCTAVO_INLINE Vec load_half_e8m0(const uint8_t* p) {
  const __m256i e = load_bytes(p), one = _mm256_set1_epi32(1);
  const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23),
                subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
  return {_mm256_castsi256_ps(_mm256_blendv_epi8(subnormal, normal, _mm256_cmpgt_epi32(e, one)))};
}

template <class Codes>
OCTAVO_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  const __m256i values = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  return (Codes)_mm256_shuffle_epi8(values, (__m256i)codes);
}

constexpr bool kPermutes = false;  ///< VPERMPS has 8 floats here
