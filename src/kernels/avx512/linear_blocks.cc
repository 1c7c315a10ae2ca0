#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/codes.inl"

#include "kernels/generic/float_elements.inl"

#include "kernels/generic/float_blocks.inl"

#include "kernels/generic/float_units.inl"

#include "kernels/avx512/tile4.inl"
constexpr char kSuffix[] = " avx512 12x16";

#include "kernels/generic/linear_panel_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx512
