#include "kernels/parts.h"

namespace octavo::kernels::avx2 {

constinit const AttentionKernel attention_f32 = {};
constinit const AttentionKernel attention_bf16 = {};

}  // namespace octavo::kernels::avx2
