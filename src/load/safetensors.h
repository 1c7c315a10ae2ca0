// Parts of the safetensors reader that its tests and fuzz target reach; models use load/checkpoint.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "load/checkpoint.h"

namespace octavo {

/// All tensors of one file's bytes, their data pointers (into `file`, not always aligned) in the same order.
/// Error naming `path` and the tensor for any fault: after it, every byte of every tensor lies in `file`.
std::vector<TensorInfo> parse_safetensors(std::span<const std::byte> file, const std::string& path,
                                          std::vector<const std::byte*>& data);

void add_safetensors_file(Checkpoint& out, const std::string& path);

/// The path of a shard that an index file (`origin`) names. Error if it is not a regular file within the
/// folder, links resolved (or within the blobs of the same repository of the Hugging Face cache). Opens
/// nothing.
std::string shard_path(const std::string& folder, const std::string& name, const std::string& origin);

}  // namespace octavo
