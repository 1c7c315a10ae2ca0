// Scales and codes of packed panels (generic/panel_blocks.inl): the contract is in scalar/codes.inl.

OCTAVO_INLINE __m128i load_16(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
OCTAVO_INLINE Vec load_f16(const uint8_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}

OCTAVO_INLINE __m512i load_bytes(const uint8_t* p) { return _mm512_cvtepu8_epi32(load_16(p)); }
template <int kShift, int kMask>
OCTAVO_INLINE Vec load_field(const uint8_t* p) {
  __m512i x = load_bytes(p);
  if constexpr (kShift) x = _mm512_srli_epi32(x, kShift);
  if constexpr (kMask < 255 >> kShift) x = _mm512_and_si512(x, _mm512_set1_epi32(kMask));
  return {_mm512_cvtepi32_ps(x)};
}
template <int kMask>
OCTAVO_INLINE Vec load_split(const uint8_t* high, const uint8_t* rest) {
  const __m512i upper = _mm512_slli_epi32(
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(high))), 16);
  const __m512i lower = _mm512_slli_epi32(_mm512_and_si512(load_bytes(rest), _mm512_set1_epi32(kMask)), 8);
  return {_mm512_castsi512_ps(_mm512_or_si512(upper, lower))};
}
OCTAVO_INLINE Vec load_half_e8m0(const uint8_t* p) {
  const __m512i e = load_bytes(p), one = _mm512_set1_epi32(1);
  const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23),
                subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), e);
  return {_mm512_castsi512_ps(_mm512_mask_mov_epi32(subnormal, _mm512_cmpgt_epi32_mask(e, one), normal))};
}

template <class Codes>
OCTAVO_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  const __m512i values = _mm512_broadcast_i32x4(load_16(table));
  return (Codes)_mm512_shuffle_epi8(values, (__m512i)codes);
}

constexpr bool kPermutes = true;
template <class Ints>
OCTAVO_INLINE Vec permuted(const float* table, Ints x) {
  return {_mm512_permutexvar_ps((__m512i)x, _mm512_load_ps(table))};
}
