#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_vnni {
namespace {
using namespace avx512;

#include "kernels/avx512_vnni/dot.inl"

#include "kernels/generic/int8.inl"

#include "kernels/avx512/tile_dot.inl"

#include "kernels/generic/linear_w8a8.inl"

#include "kernels/generic/panel_kernel.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = panel_kernel("w8a8 avx512_vnni 8x32 vnni");

}  // namespace octavo::kernels::avx512_vnni
