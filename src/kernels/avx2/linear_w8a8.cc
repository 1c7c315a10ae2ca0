#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/avx2/dot.inl"

#include "kernels/generic/int8.inl"

#include "kernels/avx2/tile_int8.inl"

#include "kernels/generic/linear_w8a8.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = panel_kernel("w8a8 avx2 6x16 madd");

}  // namespace octavo::kernels::avx2
