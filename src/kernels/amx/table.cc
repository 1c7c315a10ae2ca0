#include "kernels/parts.h"

namespace octavo::kernels::amx {

constinit const KernelParts parts = {
    .isa = "amx",
    .linear = {nullptr, &linear_bf16, &linear_w8a8, &linear_w4a8},
    .bf16_blocks = linear_blocks,
    .attention = {nullptr, &attention_bf16},
};

}  // namespace octavo::kernels::amx
