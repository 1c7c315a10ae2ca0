#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx_vnni {
namespace {
using namespace avx2;

#include "kernels/avx_vnni/dot.inl"

#include "kernels/generic/int8.inl"

#include "kernels/avx2/tile_int8.inl"

#include "kernels/generic/linear_w8a8.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = panel_kernel("w8a8 avx_vnni 6x16 vnni");

}  // namespace octavo::kernels::avx_vnni
