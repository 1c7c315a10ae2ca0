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
    unpack<F>(panel, c0, c1, unpacked);
    const char* record = static_cast<const char*>(a.prepared) + c0 * kGroups * kRecordBytes<F::kGroup>;
    for (int64_t row = m0; row < m1; ++row)
      for (int c = 0; c < columns; ++c) {
        float& result = results[row - m0][c];
        result =
            add_groups<F>(unpacked, c, record + row * stride, static_cast<int>(c1 - c0) * kGroups, result);
      }
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

#include "kernels/generic/int8_block_kernels.inl"
}  // namespace

#include "kernels/generic/int8_block_list.inl"

}  // namespace octavo::kernels::scalar
