// safetensors files: no input crashes, what is accepted lies inside the input, and every tensor can be read.
#include <cstdlib>

#include "attempt.h"
#include "load/host_weight.h"
#include "load/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace octavo;
  std::span file(reinterpret_cast<const std::byte*>(bytes), size);
  fuzz::attempt([&] {
    std::vector<const std::byte*> data;
    std::vector<TensorInfo> tensors = parse_safetensors(file, "fuzz", data);
    Checkpoint checkpoint("fuzz");
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo& tensor = tensors[i];
      auto end = data[i] + tensor.shape.elements() * info(tensor.dtype).block_bytes;
      if (data[i] < file.data() || end > file.data() + size) std::abort();
      checkpoint.add({tensor, data[i], 0});
    }
    for (const TensorInfo& tensor : tensors) {
      checkpoint.get(tensor.name);
      fuzz::attempt([&] { float_tensor(checkpoint, tensor.name, tensor.shape); });
      fuzz::attempt([&] { checkpoint.require(tensor.name, {1, 2, 3}); });
    }
  });
  return 0;
}
