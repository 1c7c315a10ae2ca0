// Stored weights as float32.
#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "load/quant/gguf_blocks.h"

namespace octavo {

/// Rows of a tensor seen as [elements / last dimension, last dimension]; a vector is one row.
int64_t row_count(const TensorView& tensor);

/// Whether values of this type can be dequantised.
bool holds_floats(DType dtype);

/// Reads rows of F16 (a block is one element) and of GGUF's block types; null for other types.
BlockDecoder row_decoder(DType dtype);

/// Rows [row0, row1) into out [row1 - row0, columns]: F32, F16, BF16 and all of GGUF's block types, bit for
/// bit what the `gguf` Python package's dequantiser gives. Error for a dtype without float values. Safe from
/// several threads.
void dequantise_rows(const TensorView& tensor, int64_t row0, int64_t row1, float* out);

/// All of it.
std::vector<float> dequantise(const TensorView& tensor);

}  // namespace octavo
