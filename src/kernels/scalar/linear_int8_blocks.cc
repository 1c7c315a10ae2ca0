#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
constexpr bool kPairs = false;
constexpr char kSuffix[] = " int8 scalar";
#include "kernels/scalar/codes.inl"

#include "kernels/generic/int8_blocks.inl"

/// Adds unpacked groups to the results of one row and panel.
template <class F>
void add_groups(const Unpacked& w, const char* record, int groups, float* results) {
  for (int g = 0; g < groups; ++g, record += kRecordBytes<F::kGroup>) {
    const auto* header = reinterpret_cast<const GroupHeader*>(record);
    const auto* x = reinterpret_cast<const int8_t*>(header + 1);
    for (int c = 0; c < kPanel; ++c) {
      int32_t sum = header->start;
      for (int kk = 0; kk < F::kGroup; ++kk)
        sum += w.codes[(g * F::kGroup + kk) / 4 * kQuadBytes + c * 4 + kk % 4] * x[kk];
      results[c] = __builtin_fmaf(static_cast<float>(sum) * header->scale, w.a[g][c], results[c]);
      if (F::kMin) results[c] = __builtin_fmaf(w.b[g][c], header->sum, results[c]);
    }
  }
}

#include "kernels/scalar/panels.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/int8_block_list.inl"

}  // namespace octavo::kernels::scalar
