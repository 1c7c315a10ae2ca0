#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
constexpr int kTileRows = 3, kTileColumns = 4;
constexpr char kSuffix[] = " avx2 3x4";
#include "kernels/avx2/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/generic/float_products.inl"

#include "kernels/generic/linear_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx2
