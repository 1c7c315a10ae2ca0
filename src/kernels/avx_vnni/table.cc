#include "kernels/parts.h"

namespace octavo::kernels::avx_vnni {

constinit const KernelParts parts = {
    .isa = "avx_vnni",
    .linear = {nullptr, nullptr, &linear_w8a8, &linear_w4a8, &linear_q8a8, &linear_q4a8},
    .int8_blocks = linear_int8_blocks,
};

}  // namespace octavo::kernels::avx_vnni
