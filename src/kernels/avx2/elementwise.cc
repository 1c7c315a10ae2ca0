#include "kernels/parts.h"

namespace octavo::kernels::avx2 {

constinit const ElementwiseKernels elementwise = {};

}  // namespace octavo::kernels::avx2
