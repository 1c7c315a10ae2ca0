#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
constexpr int kTileRows = 2, kTileColumns = 4;
constexpr char kSuffix[] = " scalar 2x4";
#include "kernels/scalar/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/generic/float_products.inl"

#include "kernels/generic/linear_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::scalar
