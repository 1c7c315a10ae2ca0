// Q8A8 and Q4A8. Include inside the anonymous namespace after `kBits`.
constexpr int kQuad = 4;
constexpr bool kUnsigned = false, kPairs = false;
#include "kernels/generic/int8_groups.inl"

/// Weight kk of column c of a group.
int weight_at(const char* body, int c, int kk) {
  if (kBits == 8) return static_cast<int8_t>(body[(kk / kQuad * kPanel + c) * kQuad + kk % kQuad]);
  const int byte = static_cast<uint8_t>(body[(kk / 8 * kPanel + c) * 4 + kk % 4]);
  return (kk % 8 < 4 ? byte & 15 : byte >> 4) - 8;
}

void run(const LinearRun& a) {
  for (int64_t col = a.n0; col < a.n1; ++col) {
    const char* panel = static_cast<const char*>(a.packed) + col / kPanel * panel_bytes(a.shape);
    const int c = static_cast<int>(col % kPanel);
    for (int64_t row = a.m0; row < a.m1; ++row) {
      const char* record = static_cast<const char*>(a.prepared) + row * row_bytes(a.shape);
      float result = 0;
      for (int64_t g = 0; g < a.shape.k / kGroup; ++g, record += kRecordBytes) {
        const char* group = panel + g * kGroupBytes;
        const int8_t* x = reinterpret_cast<const int8_t*>(record + sizeof(GroupHeader));
        int32_t sum = 0;
        for (int kk = 0; kk < kGroup; ++kk) sum += x[kk] * weight_at(group + kScaleBytes, c, kk);
        const float scale = float_of_half(reinterpret_cast<const uint16_t*>(group)[c]);
        const float x_scale = reinterpret_cast<const GroupHeader*>(record)->scale;
        result = __builtin_fmaf(static_cast<float>(sum) * x_scale, scale, result);
      }
      float& y = a.y[row * a.ldy + col];
      const float bias = a.bias ? a.bias[col] : 0.0f, start = a.accumulate ? y + bias : bias;
      y = start + result;
    }
  }
}

#include "kernels/generic/panel_kernel.inl"
