#include "kernels/scalar/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/elementwise.inl"
}  // namespace

constinit const ElementwiseKernels elementwise = kElementwise;

}  // namespace octavo::kernels::scalar
