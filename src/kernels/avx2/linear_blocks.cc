#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/avx2/codes.inl"

#include "kernels/generic/float_elements.inl"

#include "kernels/generic/float_blocks.inl"

#include "kernels/generic/float_units.inl"

#include "kernels/avx2/tile_int8.inl"
constexpr char kSuffix[] = " avx2 6x16";

#include "kernels/generic/linear_panel_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx2
