#include "kernels/parts.h"

namespace octavo::kernels::scalar {

constinit const ElementwiseKernels elementwise = {};

}  // namespace octavo::kernels::scalar
