// Decoders of GGUF's block types. Layouts are beside each decoder; "h" is a float16.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace octavo {

/// `blocks` consecutive blocks at `from` (no alignment needed) into blocks * block_elements floats.
using BlockDecoder = void (*)(const uint8_t* from, int64_t blocks, float* out);

/// Null if the dtype is not a block type.
BlockDecoder block_decoder(DType dtype);

}  // namespace octavo
