#include "kernels/parts.h"

namespace octavo::kernels::avx512 {

constinit const KernelParts parts = {
    .isa = "avx512",
    .linear = {&linear_f32, &linear_bf16, &linear_w8a8, &linear_w4a8, &linear_q8a8, &linear_q4a8},
    .int8_blocks = linear_int8_blocks,
    .blocks = linear_blocks,
    .attention = {&attention_f32, &attention_bf16, &attention_fp8, &attention_int8},
    .elementwise = &elementwise,
    .sampling = &sampling,
};

}  // namespace octavo::kernels::avx512
