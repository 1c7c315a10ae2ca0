// Weight-only formats by VDPBF16PS: twice the multiply-add rate of F32, and codes as they are unpacked.
// Activations are rounded to BF16.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_bf16 {
namespace {
using namespace avx512;

constexpr bool kSplitRows = false;
constexpr int kDepth = 256;
#include "kernels/avx512/bf16_blocks.inl"

// Units of linear_panel_blocks.inl: pairs of BF16.
using Sum = Vec;
constexpr int kUnit = 2, kCodeBytes = 2, kVecs = 1;
constexpr bool kKeepResults = true;
constexpr int kDirectGroups = 2;
constexpr int64_t kCachedBytes = 640 << 10;

OCTAVO_INLINE Vec unpacked_unit(const char* codes, int u, int) {
  return load(reinterpret_cast<const float*>(codes + u * kQuadBytes));
}
template <class F>
OCTAVO_INLINE Vec packed_unit(const char* planes, int u, int) {
  return {(__m512)pair_of<F>(planes, u, 0)};
}
OCTAVO_INLINE void dot_row(Vec* sum, const uint32_t* x, const Vec* weights) {
  __asm__("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(sum->v) : "m"(*x), "v"(weights->v));
}

#include "kernels/avx512/tile4.inl"
constexpr char kSuffix[] = " avx512_bf16 12x16, activations rounded to bf16";

#include "kernels/generic/linear_panel_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx512_bf16
