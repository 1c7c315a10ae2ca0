// 32 packed codes to floats, for block_formats.inl: the contract is in scalar/codes.inl. Nibbles are indices
// of VPERMPS, which reads the low four bits of each lane: a table that is scaled once for 32 weights leaves
// four instructions for them.

constexpr int kCodeBias = 0, kNibbleBias = 0;

constexpr int element(int p) { return p; }

struct Bytes {
  __m256i v;
};

template <class T>
OCTAVO_INLINE T load_as(const uint8_t* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
OCTAVO_INLINE __m128i load_16(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

OCTAVO_INLINE Bytes nibble_plane(const uint8_t* p) {
  const __m256i both = _mm256_broadcastsi128_si256(load_16(p));
  return {_mm256_and_si256(_mm256_srlv_epi64(both, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15))};
}
OCTAVO_INLINE Bytes pair_plane(const uint8_t* p) {
  const __m256i all = _mm256_set1_epi64x(load_as<int64_t>(p));
  return {_mm256_and_si256(_mm256_srlv_epi64(all, _mm256_setr_epi64x(0, 2, 4, 6)), _mm256_set1_epi8(3))};
}
OCTAVO_INLINE Bytes bit_plane(const uint8_t* p) {
  const __m256i all = _mm256_set1_epi32(load_as<int32_t>(p)),
                lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_and_si256(_mm256_srlv_epi32(all, lanes), _mm256_set1_epi8(1))};
}
template <int kShift>
OCTAVO_INLINE Bytes join(Bytes low, Bytes high) {
  return {_mm256_or_si256(low.v, _mm256_slli_epi32(high.v, kShift))};
}
OCTAVO_INLINE void biased_codes(Bytes codes, Vec (&v)[2]) {
  v[0] = {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_castsi256_si128(codes.v)))};
  v[1] = {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm256_extracti128_si256(codes.v, 1)))};
}

struct Table {
  alignas(64) float values[16];
  constexpr explicit Table(const int8_t (&from)[16]) : values() {
    for (int i = 0; i < 16; ++i) values[i] = from[i];
  }
};
OCTAVO_INLINE void looked_up(Bytes codes, const Table& table, Vec (&v)[2]) {
  const __m512 t = _mm512_load_ps(table.values);
  v[0] = {_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm256_castsi256_si128(codes.v)), t)};
  v[1] = {_mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm256_extracti128_si256(codes.v, 1)), t)};
}

template <bool kLinear, bool kMin, bool kAdd>
OCTAVO_INLINE void nibble_weights(const uint8_t* p, const Table& table, Vec a, Vec b, Vec (&w)[2]) {
  const Vec values = {_mm512_load_ps(table.values)}, scaled = kAdd ? fma(values, a, b) : values * a;
  const __m512i codes = _mm512_cvtepu8_epi32(load_16(p));
  w[0] = {_mm512_permutexvar_ps(codes, scaled.v)};
  w[1] = {_mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), scaled.v)};
}

OCTAVO_INLINE Vec load_f16(const uint8_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
OCTAVO_INLINE float half_at(const uint8_t* p) { return _cvtsh_ss(load_as<uint16_t>(p)); }

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

/// Lanes are folded i with i + 8, then as in avx2/codes.inl.
OCTAVO_INLINE __m256 folded(Vec a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
OCTAVO_INLINE void add_sums(float* y, Vec va, Vec vb, Vec vc, Vec vd) {
  const __m256 a = folded(va), b = folded(vb), c = folded(vc), d = folded(vd);
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
  const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  _mm_storeu_ps(y, _mm_add_ps(_mm_loadu_ps(y), sums));
}
