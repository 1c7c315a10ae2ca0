// Rows of x as BF16 pairs, for the levels whose BF16 products round activations (avx512_bf16, amx). Include
// inside the folder's anonymous namespace.

/// k floats to BF16, to nearest even; an odd k gets a zero, the other half of its last pair.
void round_row(const float* from, int64_t k, uint16_t* to) {
  for (int64_t kk = 0; kk < k; kk += kLanes) {
    const int count = static_cast<int>(k - kk < kLanes ? k - kk : kLanes);
    const __m256bh half = _mm512_cvtneps_pbh(load_first(from + kk, count).v);
    _mm256_mask_storeu_epi16(to + kk, lane_mask(count), (__m256i)half);
  }
  if (k & 1) to[k] = 0;
}
