#include "kernels/parts.h"

namespace octavo::kernels::scalar {
namespace {
constexpr int kBits = 4;
#include "kernels/scalar/groups.inl"
}  // namespace

constinit const LinearKernel linear_q4a8 = panel_kernel("q4a8 scalar");

}  // namespace octavo::kernels::scalar
