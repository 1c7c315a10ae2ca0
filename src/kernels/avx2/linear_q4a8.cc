#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/avx2/dot4.inl"

#include "kernels/generic/group_dot4.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx2/tile_int8.inl"

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q4a8 = panel_kernel("q4a8 avx2 6x16 maddubs");

}  // namespace octavo::kernels::avx2
