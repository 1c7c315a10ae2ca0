#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_vnni {
namespace {
using namespace avx512;

#include "kernels/avx512_vnni/dot4.inl"

#include "kernels/generic/group_dot4.inl"

#include "kernels/generic/int8_groups.inl"

#include "kernels/avx512/tile4.inl"

#include "kernels/generic/linear_groups.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_q4a8 = panel_kernel("q4a8 avx512_vnni 12x16 vnni");

}  // namespace octavo::kernels::avx512_vnni
