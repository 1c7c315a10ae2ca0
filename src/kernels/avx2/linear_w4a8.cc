#include "kernels/avx2/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx2 {
namespace {
#include "kernels/avx2/dot4.inl"

#include "kernels/generic/int4.inl"

#include "kernels/avx2/tile.inl"

#include "kernels/generic/linear_w4a8.inl"
}  // namespace

constinit const LinearKernel linear_w4a8 = {
    .name = "w4a8 avx2 6x16 maddubs",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run,
};

}  // namespace octavo::kernels::avx2
