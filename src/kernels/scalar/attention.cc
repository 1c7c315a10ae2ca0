#include "kernels/parts.h"

namespace octavo::kernels::scalar {

constinit const AttentionKernel attention_f32 = {};
constinit const AttentionKernel attention_bf16 = {};

}  // namespace octavo::kernels::scalar
