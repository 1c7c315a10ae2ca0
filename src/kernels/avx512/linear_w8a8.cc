#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/avx512/dot.inl"

#include "kernels/generic/int8.inl"

#include "kernels/avx512/tile.inl"

#include "kernels/generic/linear_w8a8.inl"
}  // namespace

constinit const LinearKernel linear_w8a8 = {
    .name = "w8a8 avx512 8x32 madd",
    .m_step = 1,
    .n_step = kPanel,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .prepared_bytes = prepared_bytes,
    .prepare = prepare,
    .run = run,
};

}  // namespace octavo::kernels::avx512
