#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx_vnni {
namespace {
using namespace avx2;

#include "kernels/avx_vnni/dot4.inl"

#include "kernels/avx2/codes.inl"

#include "kernels/generic/int8_blocks.inl"

#include "kernels/avx2/tile_int8.inl"
constexpr char kSuffix[] = " int8 avx_vnni 6x16";

#include "kernels/generic/int8_units.inl"

#include "kernels/generic/linear_panel_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/int8_block_list.inl"

}  // namespace octavo::kernels::avx_vnni
