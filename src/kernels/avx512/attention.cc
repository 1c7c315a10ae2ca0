#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/generic/attention.inl"
}  // namespace

constinit const AttentionKernel attention_f32 = attention_kernel<KvF32>("f32 avx512");
constinit const AttentionKernel attention_bf16 = attention_kernel<KvBF16>("bf16 avx512");
constinit const AttentionKernel attention_fp8 = attention_kernel<KvFP8>("fp8 avx512");
constinit const AttentionKernel attention_int8 = attention_kernel<KvInt8>("int8 avx512");

}  // namespace octavo::kernels::avx512
