// BF16 weights by TDPBF16PS. Activations are rounded to BF16 in prepare(), as at the avx512_bf16 level. The
// instruction flushes denormals.
#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;

#include "kernels/generic/panels.inl"

#include "kernels/amx/tiles.inl"

#include "kernels/avx512/bf16_rows.inl"

// Prepared rows: [m][row_bytes(k)], pairs as in a panel, a zero in the last half of an odd k.
int64_t pair_bytes(int64_t k) { return (k + 1) / 2 * 4; }
int64_t row_bytes(int64_t k) {
  return (pair_bytes(k) + 63) / 64 * 64 | 64;
}  // an odd number of lines: tiles.inl

size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * row_bytes(shape.k));
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  const int64_t k = shape.k;
  for (int64_t row = m0; row < m1; ++row) {
    uint16_t* to = reinterpret_cast<uint16_t*>(static_cast<char*>(prepared) + row * row_bytes(k));
    round_row(x + row * ldx, k, to);
  }
}

struct BF16 {
  using Dot = DotBF16;
  static constexpr int64_t kAOffset = 0, kBOffset = 0;
  static int64_t a_stride(int64_t k) { return row_bytes(k); }
  static int64_t b_stride(int64_t k) { return panel_units<PackBF16>(k) * 4; }
  static int64_t bytes(int64_t k) { return pair_bytes(k); }

  OCTAVO_INLINE static void finish(const LinearRun& run, int64_t panel, int64_t row, const char* sums) {
    const int64_t n = panel * kPanel;
    const int count = static_cast<int>(run.n1 - n < kPanel ? run.n1 - n : kPanel);
    float* y = run.y + row * run.ldy + n;
    const Vec bias = run.bias ? load_first(run.bias + n, count) : zero();
    const Vec start = run.accumulate ? add(load_first(y, count), bias) : bias;
    store_first(y, add(start, load(reinterpret_cast<const float*>(sums))), count);
  }
};
}  // namespace

constinit const LinearKernel linear_bf16 = {
    .name = "bf16 amx 32x32, activations rounded to bf16",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackBF16>,
    .pack = pack<PackBF16>,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run_tiles<BF16>,
};

}  // namespace octavo::kernels::amx
