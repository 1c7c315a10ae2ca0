#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
constexpr int kBits = 8;
#include "kernels/scalar/groups.inl"
}  // namespace

constinit const LinearKernel linear_q8a8 = panel_kernel("q8a8 scalar");

}  // namespace octavo::kernels::scalar
