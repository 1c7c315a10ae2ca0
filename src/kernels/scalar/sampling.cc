#include "kernels/parts.h"

namespace octavo::kernels::scalar {

constinit const SamplingKernels sampling = {};

}  // namespace octavo::kernels::scalar
