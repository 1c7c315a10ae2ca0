#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx_vnni {
namespace {
using namespace avx2;

#include "kernels/avx_vnni/dot4.inl"

#include "kernels/generic/int4.inl"

#include "kernels/avx2/tile_int8.inl"

#include "kernels/generic/linear_w4a8.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w4a8 = panel_kernel("w4a8 avx_vnni 6x16 vnni");

}  // namespace octavo::kernels::avx_vnni
