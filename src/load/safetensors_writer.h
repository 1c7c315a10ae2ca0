// Writes safetensors files: one, or shards with an index as Hugging Face names them. Tensors are made one
// group at a time, so that a model never lies in memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace octavo {

struct OutputTensor {
  std::string name;
  DType dtype = DType::kF32;  ///< one that safetensors knows
  Shape shape;
  size_t bytes() const { return shape.elements() * info(dtype).block_bytes; }
};

/// Tensors that are made together: a quantised weight and its scales.
struct OutputGroup {
  std::vector<OutputTensor> tensors;
  /// Writes each tensor's bytes to its place in `out`. Called once, in the order of the groups.
  std::function<void(const std::vector<std::byte*>& out)> fill;
};

/// model.safetensors, or model-0000i-of-0000N.safetensors with model.safetensors.index.json if all of it is
/// more than `shard_bytes`. `wrote` hears of each group's bytes. Error naming the file if it cannot be
/// written; what was written by then stays.
void write_safetensors(const std::string& folder, const std::vector<OutputGroup>& groups, size_t shard_bytes,
                       const std::function<void(size_t bytes)>& wrote);

}  // namespace octavo
