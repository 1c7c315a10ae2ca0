#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/attention.inl"
}  // namespace

constinit const AttentionKernel attention_f32 = attention_kernel<KvF32>("f32 scalar");
constinit const AttentionKernel attention_bf16 = attention_kernel<KvBF16>("bf16 scalar");
constinit const AttentionKernel attention_fp8 = attention_kernel<KvFP8>("fp8 scalar");
constinit const AttentionKernel attention_int8 = attention_kernel<KvInt8>("int8 scalar");

}  // namespace octavo::kernels::scalar
