#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/panels.inl"
#include "kernels/scalar/linear_float.inl"
}  // namespace

constinit const LinearKernel linear_bf16 = {
    .name = "bf16 scalar",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes<PackBF16>,
    .pack = pack<PackBF16>,
    .prepared_bytes = nothing_prepared,
    .prepare = nullptr,
    .run = run<PackBF16>,
};

}  // namespace octavo::kernels::scalar
