// Packed weights and prepared activations of the W8A8 format, shared by all ISA folders. Include inside the
// folder's anonymous namespace, after `kQuad` (k values that one 32-bit lane of a product holds: 2 as int16,
// 4 as bytes) and `kUnsigned` (activations are stored as x + 128, for instructions that multiply unsigned by
// signed bytes).
//
//   packed    a panel of 16 output columns: PanelHeader, then bytes [ceil(k / kQuad)][16][kQuad]
//   prepared  a row: RowHeader, then one 32-bit unit for each kQuad values of k; past k: zeros in the panel
// The integer sums are exact, so y = sum * column scale * row scale + (addend + bias), each step rounded once
// and none fused, has the same bits on every ISA.

constexpr int kPanel = 16;

struct PanelHeader {
  float scale[kPanel];
  int32_t
      correction[kPanel];  ///< 128 * sum of the column's weights if kUnsigned: what x + 128 adds to the sum
  int32_t zero[kPanel];    ///< of the weight; 0 if symmetric
};

struct alignas(64) RowHeader {
  float scale;  ///< absmax / 127, 1 for a row of zeros, NaN if an element is NaN or infinite
  int32_t sum;  ///< of the quantised row, for zero points
};

int64_t units(int64_t k) { return (k + kQuad - 1) / kQuad; }
int64_t panel_bytes(int64_t k) {
  return static_cast<int64_t>(sizeof(PanelHeader)) + (units(k) * kPanel * kQuad + 63) / 64 * 64;
}
int64_t row_bytes(int64_t k) {
  return static_cast<int64_t>(sizeof(RowHeader)) + (units(k) * 4 + 63) / 64 * 64;
}

size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>((shape.n + kPanel - 1) / kPanel * panel_bytes(shape.k));
}
size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * row_bytes(shape.k));
}

void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t k = shape.k;
  for (int64_t first = n0; first < n1; first += kPanel) {
    char* panel = static_cast<char*>(packed) + first / kPanel * panel_bytes(k);
    __builtin_memset(panel, 0, panel_bytes(k));
    PanelHeader* header = reinterpret_cast<PanelHeader*>(panel);
    int8_t* body = reinterpret_cast<int8_t*>(panel + sizeof(PanelHeader));
    for (int c = 0; c < kPanel && first + c < n1; ++c) {
      const int8_t* row = rows.q + (first + c - n0) * k;
      int32_t sum = 0;
      for (int64_t kk = 0; kk < k; ++kk) {
        body[(kk / kQuad * kPanel + c) * kQuad + kk % kQuad] = row[kk];
        sum += row[kk];
      }
      header->scale[c] = rows.scales[first + c - n0];
      header->correction[c] = kUnsigned ? 128 * sum : 0;
      header->zero[c] = rows.zeros ? rows.zeros[first + c - n0] : 0;
    }
  }
}

/// Largest |x|; an infinity or NaN wins, since their bits are larger than any number's.
float largest(const float* x, int64_t k) {
  int32_t bits = 0;
  for (int64_t kk = 0; kk < k; ++kk) {
    int32_t b;
    __builtin_memcpy(&b, x + kk, 4);
    b &= 0x7fffffff;
    bits = b > bits ? b : bits;
  }
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

/// x / scale to the nearest integer, ties to even. (The addition leaves no fraction bits; rintf is a call in
/// the baseline.)
int32_t quantise(float x, float scale) {
  const float shifted = x / scale + 12582912.0f;  // 1.5 * 2^23
  int32_t bits;
  __builtin_memcpy(&bits, &shifted, 4);
  return bits - 0x4b400000;
}

void prepare_row(const float* x, int64_t k, void* to) {
  RowHeader* header = static_cast<RowHeader*>(to);
  const float most = largest(x, k);
  const bool finite = most <= 3.402823466e38f;
  const float scale = most > 0 && finite ? most / 127.0f : 1.0f;
  int32_t sum = 0;
  if (kQuad == 2) {
    int16_t* q = reinterpret_cast<int16_t*>(header + 1);
    for (int64_t kk = 0; kk < k; ++kk) {
      const int32_t value = finite ? quantise(x[kk], scale) : 0;
      q[kk] = static_cast<int16_t>(value);
      sum += value;
    }
    if (k % 2) q[k] = 0;
  } else {
    uint8_t* q = reinterpret_cast<uint8_t*>(header + 1);
    for (int64_t kk = 0; kk < k; ++kk) {
      const int32_t value = finite ? quantise(x[kk], scale) : 0;
      q[kk] = static_cast<uint8_t>(value + (kUnsigned ? 128 : 0));
      sum += value;
    }
    for (int64_t kk = k; kk % 4; ++kk) q[kk] = 0;
  }
  header->scale = finite ? scale : __builtin_nanf("");
  header->sum = sum;
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  const int64_t k = shape.k;
  for (int64_t row = m0; row < m1; ++row)
    prepare_row(x + row * ldx, k, static_cast<char*>(prepared) + row * row_bytes(k));
}
