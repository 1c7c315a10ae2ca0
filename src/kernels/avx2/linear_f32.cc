#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/generic/panels.inl"

#include "kernels/avx2/tile.inl"

#include "kernels/generic/linear_float.inl"
}  // namespace

constinit const LinearKernel linear_f32 = {
    .name = "f32 avx2 6x16",
    .m_step = kMaxRows,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackF32>,
    .pack = pack<PackF32>,
    .prepared_bytes = nothing_prepared,
    .prepare = nullptr,
    .run = run<FmaF32>,
};

}  // namespace octavo::kernels::avx2
