#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
constexpr bool kPairs = false;
constexpr char kSuffix[] = " int8 scalar";
#include "kernels/scalar/codes.inl"

#include "kernels/generic/int8_blocks.inl"

/// Adds unpacked groups to the result of one row and column.
template <class F>
float add_groups(const Unpacked& w, int c, const char* record, int groups, float result) {
  for (int g = 0; g < groups; ++g, record += kRecordBytes<F::kGroup>) {
    const auto* header = reinterpret_cast<const GroupHeader*>(record);
    const auto* x = reinterpret_cast<const int8_t*>(header + 1);
    int32_t sum = header->start;
    for (int kk = 0; kk < F::kGroup; ++kk)
      sum += w.codes[(g * F::kGroup + kk) / 4 * kQuadBytes + c * 4 + kk % 4] * x[kk];
    result = __builtin_fmaf(static_cast<float>(sum) * header->scale, w.a[g][c], result);
    if (F::kMin) result = __builtin_fmaf(w.b[g][c], header->sum, result);
  }
  return result;
}

template <class F>
void run(const LinearRun& a) {
  constexpr int kGroups = kChunk / F::kGroup, kDepthChunks = kDepth / kChunk;
  Unpacked unpacked;
  const int64_t stride = row_bytes<F::kGroup>(a.shape), chunks = a.shape.k / kChunk;
  for (int64_t row = a.m0; row < a.m1; ++row)
    for (int64_t n = a.n0; n < a.n1; n += kPanel) {
      const char* panel = static_cast<const char*>(a.packed) + n / kPanel * panel_bytes<F>(a.shape);
      const char* record = static_cast<const char*>(a.prepared) + row * stride;
      const int columns = static_cast<int>(a.n1 - n < kPanel ? a.n1 - n : kPanel);
      float results[kPanel] = {};
      for (int64_t c0 = 0, c1; c0 < chunks; c0 = c1) {
        c1 = c0 + kDepthChunks < chunks ? c0 + kDepthChunks : chunks;
        unpack<F>(panel, c0, c1, unpacked);
        const int groups = static_cast<int>(c1 - c0) * kGroups;
        for (int c = 0; c < columns; ++c) results[c] = add_groups<F>(unpacked, c, record, groups, results[c]);
        record += groups * kRecordBytes<F::kGroup>;
      }
      float* y = a.y + row * a.ldy + n;
      for (int c = 0; c < columns; ++c) {
        const float bias = a.bias ? a.bias[n + c] : 0.0f;
        y[c] = (a.accumulate ? y[c] + bias : bias) + results[c];
      }
    }
}

#include "kernels/generic/int8_block_kernels.inl"
}  // namespace

constinit const LinearKernel linear_int8_blocks[kNumInt8Blocks] = {
    kKernel<Q4_1>, kKernel<Q5_0>, kKernel<Q5_1>, kKernel<Q2_K>,
    kKernel<Q3_K>, kKernel<Q4_K>, kKernel<Q5_K>, kKernel<Q6_K>,
};

}  // namespace octavo::kernels::scalar
