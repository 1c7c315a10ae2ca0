#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot.inl"

#include "kernels/generic/group_dot8.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx512/tile4.inl"
constexpr bool kKeepResults = true;

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q8a8 = panel_kernel("q8a8 avx512 12x16 madd");

}  // namespace octavo::kernels::avx512
