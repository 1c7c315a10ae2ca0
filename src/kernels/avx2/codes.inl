// 32 packed codes to floats, for block_formats.inl: the contract is in scalar/codes.inl.
//
// A code below 128 becomes a float without a conversion: 0x4300 | code is the bfloat16 128 + code. Bytes
// unpacked with 0x43 are pairs of those in 32-bit lanes, which a shift and a mask widen. So codes are stored
// in the order that makes the result natural: six instructions for 32 codes, where sign extension and
// conversion of natural bytes take eleven.

constexpr int kCodeBias = 128;

constexpr int element(int p) { return p % 16 / 8 * 16 + p % 2 * 8 + p / 16 * 4 + p % 8 / 2; }

struct Bytes {
  __m256i v;
};

template <class T>
OCTAVO_INLINE T load_as(const uint8_t* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
OCTAVO_INLINE __m256i load_twice(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

OCTAVO_INLINE Bytes nibble_plane(const uint8_t* p) {
  const __m256i shifted = _mm256_srlv_epi64(load_twice(p), _mm256_setr_epi64x(0, 0, 4, 4));
  return {_mm256_and_si256(shifted, _mm256_set1_epi8(15))};
}
OCTAVO_INLINE Bytes pair_plane(const uint8_t* p) {
  const __m256i all = _mm256_set1_epi64x(load_as<int64_t>(p));
  return {_mm256_and_si256(_mm256_srlv_epi64(all, _mm256_setr_epi64x(0, 2, 4, 6)), _mm256_set1_epi8(3))};
}
OCTAVO_INLINE Bytes bit_plane(const uint8_t* p) {
  const __m256i all = _mm256_set1_epi32(load_as<int32_t>(p));
  return {_mm256_and_si256(_mm256_srlv_epi32(all, lane_index()), _mm256_set1_epi8(1))};
}
template <int kShift>
OCTAVO_INLINE Bytes join(Bytes low, Bytes high) {
  return {_mm256_or_si256(low.v, _mm256_slli_epi32(high.v, kShift))};
}

OCTAVO_INLINE void widen(__m256i low_bytes, __m256i high_bytes, Vec (&v)[4]) {
  const __m256i odd = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
  const __m256i first = _mm256_unpacklo_epi8(low_bytes, high_bytes),
                second = _mm256_unpackhi_epi8(low_bytes, high_bytes);
  v[0] = {_mm256_castsi256_ps(_mm256_slli_epi32(first, 16))};
  v[1] = {_mm256_castsi256_ps(_mm256_and_si256(first, odd))};
  v[2] = {_mm256_castsi256_ps(_mm256_slli_epi32(second, 16))};
  v[3] = {_mm256_castsi256_ps(_mm256_and_si256(second, odd))};
}
OCTAVO_INLINE void biased_codes(Bytes codes, Vec (&v)[4]) { widen(codes.v, _mm256_set1_epi8(0x43), v); }

/// Bytes of the bfloat16s of 16 small integers.
struct Table {
  alignas(16) uint8_t low[16], high[16];
  constexpr explicit Table(const int8_t (&values)[16]) : low(), high() {
    for (int i = 0; i < 16; ++i) {
      const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(values[i]));
      low[i] = static_cast<uint8_t>(bits >> 16);
      high[i] = static_cast<uint8_t>(bits >> 24);
    }
  }
};
OCTAVO_INLINE void looked_up(Bytes codes, const Table& table, Vec (&v)[4]) {
  widen(_mm256_shuffle_epi8(load_twice(table.low), codes.v),
        _mm256_shuffle_epi8(load_twice(table.high), codes.v), v);
}

/// Linear codes need no table, at the price of kCodeBias in b; with a min b has no room for it.
template <bool kLinear, bool kMin, bool kAdd>
OCTAVO_INLINE void nibble_weights(const uint8_t* p, const Table& table, Vec a, Vec b, Vec (&w)[4]) {
  if constexpr (kLinear && !kMin)
    biased_codes(nibble_plane(p), w);
  else
    looked_up(nibble_plane(p), table, w);
  for (Vec& x : w) x = kAdd ? fma(x, a, b) : x * a;
}
constexpr int kNibbleBias = kCodeBias;

OCTAVO_INLINE Vec load_f16(const uint8_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
OCTAVO_INLINE float half_at(const uint8_t* p) { return _cvtsh_ss(load_as<uint16_t>(p)); }

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

/// y[0..3] += the sums of a, b, c and d. Lanes are folded i with i + 2, then with i + 1, then the halves.
OCTAVO_INLINE void add_sums(float* y, Vec a, Vec b, Vec c, Vec d) {
  const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a.v, b.v), _mm256_unpackhi_ps(a.v, b.v));
  const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c.v, d.v), _mm256_unpackhi_ps(c.v, d.v));
  const __m256 s = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  _mm_storeu_ps(y, _mm_add_ps(_mm_loadu_ps(y), sums));
}
