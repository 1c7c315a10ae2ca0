#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
constexpr int kTileRows = 3, kTileColumns = 8;
constexpr char kSuffix[] = " avx512 3x8";
#include "kernels/avx512/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/generic/float_products.inl"

#include "kernels/generic/linear_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx512
