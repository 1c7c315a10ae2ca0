// GGUF files: header, all metadata accessors, tokenizer, config, and every tensor dequantised.
#include "load/gguf.h"

#include "load/dequantise.h"
#include "load/hf_config.h"

namespace {

template <class F>
void attempt(F&& f) {
  try {
    f();
  } catch (const octavo::Error&) {
  }
}

void read_all(const octavo::GgufFile& file) {
  for (const std::string& key : file.keys()) {
    attempt([&] { file.integer(key); });
    attempt([&] { file.number(key); });
    attempt([&] { file.text(key); });
    attempt([&] { file.texts(key); });
    attempt([&] { file.floats(key); });
    attempt([&] { file.integers(key); });
  }
  for (const octavo::GgufFile::Tensor& tensor : file.tensors()) {
    octavo::TensorView view{tensor.dtype, tensor.shape, tensor.data};
    bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % 8 == 0;  // Checkpoint copies what is not
    if (aligned) attempt([&] { octavo::dequantise(view); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  attempt([&] {
    std::vector<octavo::GgufFile> parts;
    parts.emplace_back(std::span(reinterpret_cast<const std::byte*>(bytes), size), "fuzz");
    read_all(parts[0]);
    attempt([&] { octavo::gguf_tokenizer(parts[0]); });
    attempt([&] { octavo::gguf_config(parts); });
    attempt([&] { octavo::gguf_checkpoint(std::move(parts)); });
  });
  return 0;
}
