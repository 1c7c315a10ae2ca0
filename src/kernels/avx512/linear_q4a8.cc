#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot4.inl"

#include "kernels/generic/group_dot4.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx512/tile4.inl"

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q4a8 = panel_kernel("q4a8 avx512 12x16 maddubs");

}  // namespace octavo::kernels::avx512
