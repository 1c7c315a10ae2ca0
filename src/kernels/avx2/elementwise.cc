#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/generic/elementwise.inl"
}  // namespace

constinit const ElementwiseKernels elementwise = kElementwise;

}  // namespace octavo::kernels::avx2
