#include "kernels/parts.h"

namespace octavo::kernels::avx2 {

constinit const SamplingKernels sampling = {};

}  // namespace octavo::kernels::avx2
