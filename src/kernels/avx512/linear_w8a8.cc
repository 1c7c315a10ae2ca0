#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot.inl"

#include "kernels/generic/int8.inl"

#include "kernels/avx512/tile_dot.inl"

#include "kernels/generic/linear_w8a8.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = panel_kernel("w8a8 avx512 8x32 madd");

}  // namespace octavo::kernels::avx512
