// Packed weights and prepared activations of the W8A8 format, shared by all ISA folders. Include inside the
// folder's anonymous namespace, after `kQuad` (k values that one 32-bit lane of a product holds: 2 as int16,
// 4 as bytes) and `kUnsigned` (activations are stored as x + 128, for instructions that multiply unsigned by
// signed bytes).
//
//   packed    a panel of 16 output columns: PanelHeader, then bytes [ceil(k / kQuad)][16][kQuad]
//   prepared  a row: RowHeader, then one 32-bit unit for each kQuad values of k; past k: zeros in the panel
// The integer sums are exact, so y = sum * column scale * row scale + (addend + bias), each step rounded once
// and none fused, has the same bits on every ISA.

#include "kernels/generic/quantise.inl"

constexpr int kPanel = 16;

struct PanelHeader {
  float scale[kPanel];
  int32_t sum[kPanel];   ///< of the column's stored weights
  int32_t zero[kPanel];  ///< of the weight; 0 if symmetric
};

/// sum((x - offset) * (w - zero)) = sum(x w) - offset * PanelHeader::sum - zero * RowHeader::sum.
struct alignas(64) RowHeader {
  float scale;     ///< NaN if an element is NaN or infinite
  int32_t offset;  ///< of the stored values: the zero point, and 128 if kUnsigned
  int32_t sum;     ///< of the row's values, offset taken away
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
      for (int64_t kk = 0; kk < k; ++kk) {
        body[(kk / kQuad * kPanel + c) * kQuad + kk % kQuad] = row[kk];
        header->sum[c] += row[kk];
      }
      header->scale[c] = rows.scales[first + c - n0];
      header->zero[c] = rows.zeros ? rows.zeros[first + c - n0] : 0;
    }
  }
}

void prepare_row(const float* x, int64_t k, const LinearShape& shape, void* to) {
  RowHeader* header = static_cast<RowHeader*>(to);
  const RowScale scale = row_scale(x, k, shape);
  const int64_t count = scale.finite ? k : 0;
  int32_t sum;
  if constexpr (kQuad == 2) {
    int16_t* q = reinterpret_cast<int16_t*>(header + 1);
    sum = quantise_shorts(x, count, scale, q);
    for (int64_t kk = count; kk < units(k) * kQuad; ++kk) q[kk] = 0;
  } else {
    uint8_t* q = reinterpret_cast<uint8_t*>(header + 1);
    sum = quantise_bytes(x, count, scale, kUnsigned ? 0x80 : 0, q);
    for (int64_t kk = count; kk < units(k) * kQuad; ++kk) q[kk] = 0;
  }
  header->scale = scale.finite ? scale.scale : __builtin_nanf("");
  header->offset = scale.zero + (kUnsigned ? 128 : 0);
  header->sum = sum - static_cast<int32_t>(k) * scale.zero;
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  const int64_t k = shape.k;
  for (int64_t row = m0; row < m1; ++row)
    prepare_row(x + row * ldx, k, shape, static_cast<char*>(prepared) + row * row_bytes(k));
}
