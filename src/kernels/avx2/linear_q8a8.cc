#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/avx2/dot.inl"

#include "kernels/generic/group_dot8.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx2/tile_int8.inl"
constexpr bool kKeepResults = false;

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q8a8 = panel_kernel("q8a8 avx2 6x16 madd");

}  // namespace octavo::kernels::avx2
