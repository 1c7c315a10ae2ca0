#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
constexpr char kSuffix[] = " scalar";
#include "kernels/scalar/codes.inl"

#include "kernels/generic/float_elements.inl"

#include "kernels/generic/float_blocks.inl"

/// Adds unpacked groups to the results of one row and panel.
template <class F>
void add_groups(const Unpacked& w, const char* record, int groups, float* results) {
  for (int g = 0; g < groups; ++g, record += kRecordBytes<F::kGroup>) {
    const auto* header = reinterpret_cast<const GroupHeader*>(record);
    const auto* x = reinterpret_cast<const float*>(header + 1);
    const char* codes = w.codes + g * F::kGroup * kPanel * 2;
    for (int c = 0; c < kPanel; c += kLanes) {
      Vec sum = set1(header->start);
      for (int kk = 0; kk < F::kGroup; ++kk) {
        const auto* pair = reinterpret_cast<const uint32_t*>(codes + kk / 2 * kQuadBytes) + c;
        fma_into(sum, set1(x[kk]), kk % 2 ? bf16_high(pair) : bf16_low(pair));
      }
      Vec result = fma(sum, load(w.a[g] + c), load(results + c));
      if (F::kMin) result = fma(load(w.b[g] + c), set1(header->sum), result);
      store(results + c, result);
    }
  }
}

#include "kernels/scalar/panels.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::scalar
