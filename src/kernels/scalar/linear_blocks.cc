#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
constexpr int kTileRows = 2, kTileColumns = 4;
constexpr char kSuffix[] = " scalar 2x4";
#include "kernels/scalar/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/generic/linear_blocks.inl"
}  // namespace

constinit const LinearKernel linear_blocks[kNumWeightFormats - kFirstBlockFormat] = {
    kKernel<W4A16>, kKernel<W8A16>, kKernel<FP8>,  kKernel<MXFP4>, kKernel<Q8_0>,
    kKernel<Q4_0>,  kKernel<Q4_1>,  kKernel<Q5_0>, kKernel<Q5_1>,  kKernel<Q2_K>,
    kKernel<Q3_K>,  kKernel<Q4_K>,  kKernel<Q5_K>, kKernel<Q6_K>,  kKernel<IQ4_NL>,
};

}  // namespace octavo::kernels::scalar
