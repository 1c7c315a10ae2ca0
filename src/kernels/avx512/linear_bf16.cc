#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/generic/panels.inl"

#include "kernels/avx512/tile.inl"

#include "kernels/generic/linear_float.inl"
}  // namespace

constinit const LinearKernel linear_bf16 = {
    .name = "bf16 avx512 8x32",
    .m_step = kMaxRows,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackBF16>,
    .pack = pack<PackBF16>,
    .prepared_bytes = nothing_prepared,
    .prepare = nullptr,
    .run = run<FmaBF16>,
};

}  // namespace octavo::kernels::avx512
