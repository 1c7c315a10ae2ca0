#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot4.inl"

#include "kernels/generic/int4.inl"

#include "kernels/avx512/tile4.inl"

#include "kernels/generic/linear_w4a8.inl"
}  // namespace

constinit const LinearKernel linear_w4a8 = {
    .name = "w4a8 avx512 12x16 maddubs",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run,
};

}  // namespace octavo::kernels::avx512
