#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/generic/elementwise.inl"
}  // namespace

constinit const ElementwiseKernels elementwise = kElementwise;

}  // namespace octavo::kernels::avx512
