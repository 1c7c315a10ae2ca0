#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/panels.inl"
#include "kernels/scalar/linear_float.inl"
}  // namespace

constinit const LinearKernel linear_f32 = {
    .name = "f32 scalar",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackF32>,
    .pack = pack<PackF32>,
    .prepared_bytes = nothing_prepared,
    .prepare = nullptr,
    .run = run<PackF32>,
};

}  // namespace octavo::kernels::scalar
