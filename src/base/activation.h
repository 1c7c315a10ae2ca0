// Activation functions, as configs name them and kernels compute them.
#pragma once

#include <cstdint>

namespace octavo {

enum class Activation : uint8_t { kSilu, kGelu, kGeluTanh, kRelu };

}  // namespace octavo
