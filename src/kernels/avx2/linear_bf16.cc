#include "kernels/parts.h"

namespace octavo::kernels::avx2 {

constinit const LinearKernel linear_bf16 = {};

}  // namespace octavo::kernels::avx2
