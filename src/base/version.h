// The version, as --version and /version print it.
#pragma once

namespace octavo {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace octavo
