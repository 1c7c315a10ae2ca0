// Weight-only formats by VDPBF16PS: twice the multiply-add rate of F32. Decoded weights and activations are
// rounded to BF16, as an engine that computes in BF16 dequantises them (vLLM's AWQ and GPTQ).
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_bf16 {
namespace {
using namespace avx512;
constexpr int kTileRows = 3, kTileColumns = 8;
constexpr char kSuffix[] = " avx512_bf16 3x8, rounded to bf16";
#include "kernels/avx512/codes.inl"

#include "kernels/generic/block_formats.inl"

#include "kernels/avx512/bf16_parts.inl"

#include "kernels/avx512/bf16_rows.inl"

// What linear_blocks.inl multiplies (as generic/float_products.inl): lanes sum the products of two
// neighbours.
struct Inputs {
  const Element* first;
  int64_t ld;
};
Inputs inputs_of(const LinearRun& a) { return {static_cast<const Element*>(a.prepared), a.shape.k}; }

OCTAVO_INLINE void multiply_into(Vec& sum, Vec x, Vec w) {
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(x.v), "v"(w.v));
}
OCTAVO_INLINE Vec multiply(Vec sum, Vec x, Vec w) {
  return {_mm512_dpbf16_ps(sum.v, (__m512bh)_mm512_castps_si512(x.v), (__m512bh)_mm512_castps_si512(w.v))};
}

size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * shape.k) * sizeof(Element);
}
void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  for (int64_t row = m0; row < m1; ++row)
    round_row(x + row * ldx, shape.k, static_cast<Element*>(prepared) + row * shape.k);
}
constexpr decltype(LinearKernel::prepare) kPrepare = prepare;

#include "kernels/generic/linear_blocks.inl"

#include "kernels/generic/block_kernels.inl"
}  // namespace

#include "kernels/generic/block_list.inl"

}  // namespace octavo::kernels::avx512_bf16
