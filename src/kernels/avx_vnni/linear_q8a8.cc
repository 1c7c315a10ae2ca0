#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx_vnni {
namespace {
using namespace avx2;

#include "kernels/avx_vnni/dot.inl"

#include "kernels/generic/group_dot8.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx2/tile_int8.inl"
constexpr bool kKeepResults = false;

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q8a8 = panel_kernel("q8a8 avx_vnni 6x16 vnni");

}  // namespace octavo::kernels::avx_vnni
