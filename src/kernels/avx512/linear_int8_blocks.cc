#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot4.inl"

#include "kernels/avx512/codes.inl"

#include "kernels/generic/int8_blocks.inl"

#include "kernels/avx512/tile4.inl"
constexpr char kSuffix[] = " int8 avx512 12x16";

#include "kernels/generic/int8_units.inl"

#include "kernels/generic/linear_panel_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/int8_block_list.inl"

}  // namespace octavo::kernels::avx512
