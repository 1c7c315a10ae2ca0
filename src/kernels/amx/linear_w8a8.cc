#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::amx {
namespace {
using namespace avx512;

// TDPBSSD multiplies signed by signed bytes: no offset of 128.
constexpr int kQuad = 4;
constexpr bool kUnsigned = false;

#include "kernels/avx512/ivec.inl"

#include "kernels/generic/int8.inl"

#include "kernels/amx/tiles.inl"

struct W8A8 {
  using Dot = DotInt8;
  static constexpr int64_t kAOffset = sizeof(RowHeader), kBOffset = sizeof(PanelHeader);
  static int64_t a_stride(int64_t k) { return row_bytes(k); }
  static int64_t b_stride(int64_t k) { return panel_bytes(k); }
  static int64_t bytes(int64_t k) { return units(k) * 4; }

  OCTAVO_INLINE static void finish(const LinearRun& run, int64_t panel, int64_t row, const char* sums) {
    const PanelHeader* header = reinterpret_cast<const PanelHeader*>(static_cast<const char*>(run.packed) +
                                                                     panel * panel_bytes(run.shape.k));
    const RowHeader* x = reinterpret_cast<const RowHeader*>(static_cast<const char*>(run.prepared) +
                                                            row * row_bytes(run.shape.k));
    const int64_t n = panel * kPanel;
    const int count = static_cast<int>(run.n1 - n < kPanel ? run.n1 - n : kPanel);
    float* y = run.y + row * run.ldy + n;
    const Vec bias = run.bias ? load_first(run.bias + n, count) : zero();
    const Vec start = run.accumulate ? add(load_first(y, count), bias) : bias;
    const IVec exact = load_int(reinterpret_cast<const int32_t*>(sums)) -
                       load_int(header->sum) * set_int(x->offset) - load_int(header->zero) * set_int(x->sum);
    store_first(y, add(start, to_float(exact) * load(header->scale) * broadcast(&x->scale)), count);
  }
};
}  // namespace

constinit const LinearKernel linear_w8a8 = {
    .name = "w8a8 amx 32x32",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run_tiles<W8A8>,
};

}  // namespace octavo::kernels::amx
