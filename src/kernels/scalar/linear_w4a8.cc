#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
constexpr bool kPairs = false;
#include "kernels/generic/int4.inl"

/// Exact sum of one group of one column and row.
int32_t group_sum(const uint8_t* body, const uint32_t* record, int64_t chunks, int32_t zero) {
  int32_t sum = 0;
  for (int64_t c = 0; c < chunks; ++c, body += kChunkBytes, record += kRecord) {
    const int8_t* x = reinterpret_cast<const int8_t*>(record + 1);
    for (int kk = 0; kk < kChunk; ++kk) {
      const int byte = body[kk / 8 * kPanel * 4 + kk % 4];
      sum += x[kk] * ((kk % 8 < 4 ? byte & 15 : byte >> 4) - 8 - zero);
    }
  }
  return sum;
}

void run(const LinearRun& a) {
  const Layout l = layout(a.shape);
  for (int64_t col = a.n0; col < a.n1; ++col) {
    const char* panel = static_cast<const char*>(a.packed) + col / kPanel * l.panel_bytes;
    const int c = static_cast<int>(col % kPanel);
    for (int64_t row = a.m0; row < a.m1; ++row) {
      const RowHeader* x =
          reinterpret_cast<const RowHeader*>(static_cast<const char*>(a.prepared) + row * l.row_bytes);
      const uint32_t* records = reinterpret_cast<const uint32_t*>(x + 1);
      float result = 0;
      for (int64_t g = 0; g < l.groups; ++g) {
        const char* group = panel + g * l.group_bytes;
        const int zero = a.shape.has_zeros ? reinterpret_cast<const int16_t*>(group + l.zeros)[c] : 0;
        const float scale = a.shape.half_scales ? float_of_half(reinterpret_cast<const uint16_t*>(group)[c])
                                                : reinterpret_cast<const float*>(group)[c];
        const int32_t sum = group_sum(reinterpret_cast<const uint8_t*>(group + l.body) + c * 4,
                                      records + g * l.chunks * kRecord, l.chunks, zero);
        result = __builtin_fmaf(static_cast<float>(sum), scale, result);
      }
      float& y = a.y[row * a.ldy + col];
      const float bias = a.bias ? a.bias[col] : 0.0f, start = a.accumulate ? y + bias : bias;
      y = start + result * x->scale;
    }
  }
}

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w4a8 = panel_kernel("w4a8 scalar");

}  // namespace octavo::kernels::scalar
