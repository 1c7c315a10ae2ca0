#include "kernels/avx512/vec.h"
#include "kernels/parts.h"

namespace octavo::kernels::avx512 {
namespace {
#include "kernels/generic/sampling.inl"
}  // namespace

constinit const SamplingKernels sampling = kSampling;

}  // namespace octavo::kernels::avx512
