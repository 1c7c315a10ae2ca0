// safetensors headers: no input crashes, and what is accepted lies inside the input.
#include <cstdlib>

#include "load/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::span file(reinterpret_cast<const std::byte*>(bytes), size);
  std::vector<const std::byte*> data;
  try {
    std::vector<octavo::TensorInfo> tensors = octavo::parse_safetensors(file, "fuzz", data);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const octavo::TensorInfo& tensor = tensors[i];
      auto end = data[i] + tensor.shape.elements() * octavo::info(tensor.dtype).block_bytes;
      if (data[i] < file.data() || end > file.data() + size) std::abort();
    }
  } catch (const octavo::Error&) {
  }
  return 0;
}
