#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/elementwise.inl"
}  // namespace

constinit const ElementwiseKernels elementwise = kElementwise;

}  // namespace octavo::kernels::scalar
