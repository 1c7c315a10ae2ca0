#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
constexpr int kQuad = 2;
constexpr bool kUnsigned = false;
#include "kernels/generic/int8.inl"

void run(const LinearRun& a) {
  for (int64_t col = a.n0; col < a.n1; ++col) {
    const char* panel = static_cast<const char*>(a.packed) + col / kPanel * panel_bytes(a.shape.k);
    const PanelHeader* header = reinterpret_cast<const PanelHeader*>(panel);
    const int8_t* w = reinterpret_cast<const int8_t*>(header + 1) + col % kPanel * kQuad;
    const int c = static_cast<int>(col % kPanel);
    for (int64_t row = a.m0; row < a.m1; ++row) {
      const RowHeader* x = reinterpret_cast<const RowHeader*>(static_cast<const char*>(a.prepared) +
                                                              row * row_bytes(a.shape.k));
      const int16_t* q = reinterpret_cast<const int16_t*>(x + 1);
      int32_t sum = 0;
      for (int64_t kk = 0; kk < a.shape.k; ++kk) sum += q[kk] * w[kk / kQuad * kPanel * kQuad + kk % kQuad];
      sum -= x->offset * header->sum[c] + header->zero[c] * x->sum;
      float& y = a.y[row * a.ldy + col];
      const float bias = a.bias ? a.bias[col] : 0.0f, start = a.accumulate ? y + bias : bias;
      y = start + static_cast<float>(sum) * header->scale[c] * x->scale;
    }
  }
}

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = panel_kernel("w8a8 scalar");

}  // namespace octavo::kernels::scalar
