#include "kernels/parts.h"
#include "kernels/scalar/vec.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/sampling.inl"
}  // namespace

constinit const SamplingKernels sampling = kSampling;

}  // namespace octavo::kernels::scalar
