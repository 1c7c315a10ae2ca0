#include "kernels/parts.h"

namespace octavo::kernels::avx512_bf16 {

constinit const KernelParts parts = {
    .isa = "avx512_bf16",
    .linear = {nullptr, &linear_bf16},
    .bf16_blocks = linear_blocks,
    .attention = {nullptr, &attention_bf16},
};

}  // namespace octavo::kernels::avx512_bf16
