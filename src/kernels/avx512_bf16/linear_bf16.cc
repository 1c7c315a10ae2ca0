// BF16 weights by VDPBF16PS: twice the multiply-add rate of F32 on Zen 4 and Cooper Lake (bench/probe_flops).
// Activations are rounded to BF16 in prepare(), the one difference to the avx512 level; the sum is still one
// float32 accumulator per output in rising k (two products an instruction). The instruction flushes
// denormals.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512_bf16 {
namespace {
using namespace avx512;

#include "kernels/generic/panels.inl"

#include "kernels/avx512/tile_dot.inl"

#include "kernels/generic/linear_float.inl"

#include "kernels/avx512/bf16_rows.inl"

struct DotBF16 {
  using Pack = PackBF16;
  using X = uint32_t;  ///< a pair of bf16, as in a Unit
  static constexpr int kDepth = 1;
  [[gnu::always_inline]] static Vec weights(const uint32_t* unit, int) { return {_mm512_loadu_ps(unit)}; }
  [[gnu::always_inline]] static Vec value(const uint32_t* x) {
    return {_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(*x)))};
  }
  [[gnu::always_inline]] static void mul(Vec& sum, Vec value, Vec weights) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(value.v), "v"(weights.v));
  }
};

// Prepared rows: [m][pairs(k)], a zero in the last half of an odd k.
int64_t pairs(int64_t k) { return (k + 1) / 2; }

size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * pairs(shape.k)) * sizeof(uint32_t);
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  const int64_t k = shape.k;
  for (int64_t row = m0; row < m1; ++row) {
    uint16_t* to = reinterpret_cast<uint16_t*>(static_cast<uint32_t*>(prepared) + row * pairs(k));
    round_row(x + row * ldx, k, to);
  }
}

void run_dot(const LinearRun& a) { run_blocks<DotBF16>(a, {a.prepared, pairs(a.shape.k)}, pairs(a.shape.k)); }
}  // namespace

constinit const LinearKernel linear_bf16 = {
    .name = "bf16 avx512_bf16 8x32, activations rounded to bf16",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackBF16>,
    .pack = pack<PackBF16>,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run_dot,
};

}  // namespace octavo::kernels::avx512_bf16
