// Runs add_groups<F>() over panels of block formats. Include inside the anonymous namespace, after it.
constexpr int kRowPadding = 0;
constexpr int64_t kBlockRows = 64;

/// Rows [m0, m1), at most kBlockRows of them, for the panel of columns from n on.
template <class F>
void run_panel(const LinearRun& a, int64_t n, int64_t m0, int64_t m1) {
  constexpr int kGroups = kChunk / F::kGroup, kDepthChunks = kDepth / kChunk;
  Unpacked unpacked;
  float results[kBlockRows][kPanel] = {};
  const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk;
  const int columns = static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel);
  for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
    c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
    unpack<F>(panel, c0, c1, a.shape, unpacked);
    const char* record = static_cast<const char*>(a.prepared) + c0 * kGroups * kRecordBytes<F::kGroup>;
    for (int64_t row = m0; row < m1; ++row)
      add_groups<F>(unpacked, record + row * stride, static_cast<int>(c1 - c0) * kGroups, results[row - m0]);
  }
  for (int64_t row = m0; row < m1; ++row)
    for (int c = 0; c < columns; ++c) {
      float& y = a.y[row * a.ldy + n + c];
      const float bias = a.bias ? a.bias[n + c] : 0.0f, start = a.accumulate ? y + bias : bias;
      y = start + results[row - m0][c];
    }
}

template <class F>
void run(const LinearRun& a) {
  for (int64_t n = a.n0; n < a.n1; n += kPanel)
    for (int64_t m0 = a.m0; m0 < a.m1; m0 += kBlockRows)
      run_panel<F>(a, n, m0, m0 + kBlockRows < a.m1 ? m0 + kBlockRows : a.m1);
}
