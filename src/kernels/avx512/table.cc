#include "kernels/parts.h"

namespace octavo::kernels::avx512 {

constinit const KernelParts parts = {
    .isa = "avx512",
    .linear = {&linear_f32, &linear_bf16},
};

}  // namespace octavo::kernels::avx512
