#include "kernels/parts.h"

namespace octavo::kernels::avx2 {

constinit const LinearKernel linear_f32 = {};

}  // namespace octavo::kernels::avx2
