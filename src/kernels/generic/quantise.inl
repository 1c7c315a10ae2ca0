// Activations to int8, one scale a row: what W8A8 and W4A8 prepare alike. Include inside the folder's
// anonymous namespace.
//   dynamic     scale = absmax / 127 (1 for rows of zeros, or below 1.5e-36 throughout), zero = 0
//   asymmetric  scale = (max - min) / 255 over the row and 0, zero = round(-128 - min / scale)
//   fixed       scale and zero of the shape
// A stored value is round(x / scale), ties to even, + zero, in -128..127.

struct RowScale {
  float scale;
  int32_t zero;
  bool finite;  ///< no element is NaN or infinite; else the row's scale is NaN and its values are 0
};

/// Largest |x|; an infinity or NaN wins, since their bits are larger than any number's.
float largest(const float* x, int64_t k) {
  int32_t most = 0;
  int64_t kk = 0;
#if defined(__AVX2__)
  const auto magnitudes = [x](int64_t at) __attribute__((always_inline)) {
    return _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + at)),
                            _mm256_set1_epi32(0x7fffffff));
  };
  __m256i lanes = _mm256_setzero_si256();
  for (; kk + 32 <= k; kk += 32)
    lanes =
        _mm256_max_epi32(lanes, _mm256_max_epi32(_mm256_max_epi32(magnitudes(kk), magnitudes(kk + 8)),
                                                 _mm256_max_epi32(magnitudes(kk + 16), magnitudes(kk + 24))));
  __m128i half = _mm_max_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4e));
  most = _mm_cvtsi128_si32(_mm_max_epi32(half, _mm_shuffle_epi32(half, 0xb1)));
#endif
  for (; kk < k; ++kk) {
    int32_t bits;
    __builtin_memcpy(&bits, x + kk, 4);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  float value;
  __builtin_memcpy(&value, &most, 4);
  return value;
}

/// To the nearest integer, ties to even, |x| < 2^22. (The addition leaves no fraction bits; rintf is a call
/// in the baseline.)
int32_t nearest(float x) {
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23
  int32_t bits;
  __builtin_memcpy(&bits, &shifted, 4);
  return bits - 0x4b400000;
}

/// Stored value of x. The first clamp keeps nearest() in range, where a fixed scale is too small for x.
int32_t quantise(float x, RowScale row) {
  float q = x / row.scale;
  q = q < -512.0f ? -512.0f : q;
  q = q > 512.0f ? 512.0f : q;
  int32_t value = nearest(q) + row.zero;
  value = value < -128 ? -128 : value;
  return value > 127 ? 127 : value;
}

RowScale row_scale(const float* x, int64_t k, const LinearShape& shape) {
  const float most = largest(x, k);
  if (!(most <= 3.402823466e38f)) return {1.0f, 0, false};
  if (shape.x_scale != 0) return {shape.x_scale, shape.x_zero, true};
  // A scale below the smallest normal number is too coarse: values could leave -127..127, on which the sums
  // in 16 bits of int4.inl and int8_blocks.inl count.
  if (!(most >= 127 * 1.17549435e-38f)) return {1.0f, 0, true};
  if (!shape.x_asymmetric) return {most / 127.0f, 0, true};
  float low = 0, high = 0;
  for (int64_t kk = 0; kk < k; ++kk) {
    low = x[kk] < low ? x[kk] : low;
    high = x[kk] > high ? x[kk] : high;
  }
  const float scale = (high - low) / 255.0f;
  return {scale, nearest(-128.0f - low / scale), true};
}

// quantise_bytes(x, k, row, flip, q) stores k values exclusive-or flip (0, or 0x80 for value + 128 unsigned)
// as bytes, quantise_shorts(x, k, row, q) as int16; both return the sum of the values. Thirty-two at a time
// on every level that has AVX2: what GCC makes of the plain loop takes 1.5 ns a value, half of what a matrix
// product of 512 columns takes.
#if defined(__AVX2__)
struct Quantiser {
  __m256 scale, low, high;
  __m256i zero;
  explicit Quantiser(RowScale row)
      : scale(_mm256_set1_ps(row.scale)),
        low(_mm256_set1_ps(static_cast<float>(-128 - row.zero))),
        high(_mm256_set1_ps(static_cast<float>(127 - row.zero))),
        zero(_mm256_set1_epi32(row.zero)) {}

  OCTAVO_INLINE __m256i eight(const float* x) const {
    const __m256 q = _mm256_div_ps(_mm256_loadu_ps(x), scale);
    return _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(q, low), high)), zero);
  }
  /// As int16, in the order a0..3 b0..3 a4..7 b4..7 of eight a and eight b; adds to sum.
  OCTAVO_INLINE __m256i sixteen(const float* x, __m256i& sum) const {
    const __m256i a = eight(x), b = eight(x + 8);
    sum = _mm256_add_epi32(sum, _mm256_add_epi32(a, b));
    return _mm256_packs_epi32(a, b);
  }
  OCTAVO_INLINE __m256i bytes(const float* x, __m256i& sum) const {
    const __m256i a = sixteen(x, sum), b = sixteen(x + 16, sum);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
};

int32_t total(__m256i a) {
  __m128i x = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

[[maybe_unused]] int32_t quantise_bytes(const float* x, int64_t k, RowScale row, int flip, uint8_t* q) {
  const Quantiser quantiser(row);
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(flip));
  __m256i sums = _mm256_setzero_si256();
  int64_t kk = 0;
  for (; kk + 32 <= k; kk += 32)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + kk),
                        _mm256_xor_si256(quantiser.bytes(x + kk, sums), mask));
  int32_t sum = total(sums);
  for (; kk < k; ++kk) {
    const int32_t value = quantise(x[kk], row);
    q[kk] = static_cast<uint8_t>(value ^ flip);
    sum += value;
  }
  return sum;
}

[[maybe_unused]] int32_t quantise_shorts(const float* x, int64_t k, RowScale row, int16_t* q) {
  const Quantiser quantiser(row);
  __m256i sums = _mm256_setzero_si256();
  int64_t kk = 0;
  for (; kk + 16 <= k; kk += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(q + kk),
                        _mm256_permute4x64_epi64(quantiser.sixteen(x + kk, sums), 0xd8));
  int32_t sum = total(sums);
  for (; kk < k; ++kk) sum += q[kk] = static_cast<int16_t>(quantise(x[kk], row));
  return sum;
}
#else
[[maybe_unused]] int32_t quantise_bytes(const float* x, int64_t k, RowScale row, int flip, uint8_t* q) {
  int32_t sum = 0;
  for (int64_t kk = 0; kk < k; ++kk) {
    const int32_t value = quantise(x[kk], row);
    q[kk] = static_cast<uint8_t>(value ^ flip);
    sum += value;
  }
  return sum;
}

[[maybe_unused]] int32_t quantise_shorts(const float* x, int64_t k, RowScale row, int16_t* q) {
  int32_t sum = 0;
  for (int64_t kk = 0; kk < k; ++kk) sum += q[kk] = static_cast<int16_t>(quantise(x[kk], row));
  return sum;
}
#endif

/// Sums of the values at i % 4 < 2 and of the others.
struct PairSums {
  int low, high;
};
template <int kCount>
PairSums pair_sums(const uint8_t* q) {
#if defined(__AVX2__)
  __m128i sums = _mm_setzero_si128();
  for (int i = 0; i < kCount; i += 16)
    sums = _mm_add_epi16(
        sums, _mm_maddubs_epi16(_mm_set1_epi8(1), _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + i))));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0x4e));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xb1));
  const int both = _mm_cvtsi128_si32(sums);
  return {static_cast<int16_t>(both), both >> 16};
#else
  PairSums sums = {};
  for (int i = 0; i < kCount; ++i) (i % 4 < 2 ? sums.low : sums.high) += static_cast<int8_t>(q[i]);
  return sums;
#endif
}
/// What two 16-bit lanes start at that add `offset` too much for each value: -offset times the sums.
[[maybe_unused]] uint32_t pair_start(PairSums sums, int offset) {
  return (static_cast<uint32_t>(-offset * sums.low) & 0xffffu) | static_cast<uint32_t>(-offset * sums.high)
                                                                     << 16;
}

[[maybe_unused]] uint32_t minus_eight_sums(const uint8_t* q) { return pair_start(pair_sums<32>(q), 8); }
#if defined(__AVX2__)
/// The same of values in a register (int4.inl).
[[maybe_unused]] OCTAVO_INLINE uint32_t minus_eight_sums(__m256i values) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(8), values);
  __m128i sums = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0x4e));
  sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), sums)));
}
#endif
