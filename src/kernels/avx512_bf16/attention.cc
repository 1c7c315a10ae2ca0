// BF16 KV with products by VDPBF16PS: two an instruction, and K and V as they lie in memory. Queries and
// weights are rounded to BF16; scores, maxima, sums and the weights' sum stay float32.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_bf16 {
namespace {
using namespace avx512;

#include "kernels/generic/attention.inl"

#include "kernels/avx512/kv_bf16_dot.inl"
}  // namespace

constinit const AttentionKernel attention_bf16 =
    attention_kernel<KvBF16Dot>("bf16 avx512_bf16, queries and weights rounded to bf16");

}  // namespace octavo::kernels::avx512_bf16
