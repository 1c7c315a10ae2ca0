// GGUF files: header, all metadata accessors, every tensor dequantised, the tokenizer built and used, and the
// model that the file describes bound, packed and run.
#include "attempt.h"
#include "frontend/model_text.h"
#include "load/dequantise.h"
#include "load/gguf.h"
#include "load/hf_config.h"
#include "model/testing.h"

namespace {

using namespace octavo;
using fuzz::attempt;

constexpr int64_t kLength = 32;  // tokens that a model must be ready for

void read_metadata(const GgufFile& file) {
  for (const std::string& key : file.keys()) {
    attempt([&] { file.integer(key); });
    attempt([&] { file.number(key); });
    attempt([&] { file.text(key); });
    attempt([&] { file.texts(key); });
    attempt([&] { file.floats(key); });
    attempt([&] { file.integers(key); });
  }
}

/// All tensors under their Hugging Face names, also those whose rows are put in another order.
void read_tensors(Checkpoint& checkpoint) {
  for (const std::string& name : checkpoint.names()) {
    const Shape shape = checkpoint.find(name)->shape;
    attempt([&] { float_tensor(checkpoint, name, shape); });
    attempt([&] { checkpoint.require(name, {1, 2, 3}); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static TestMachine machine(kernels::select("scalar"), {0});
  attempt([&] {
    std::vector<GgufFile> parts;
    parts.emplace_back(std::span(reinterpret_cast<const std::byte*>(bytes), size), "fuzz");
    read_metadata(parts[0]);
    attempt([&] { gguf_text(parts[0], {})->encode("Hello  w\xF0\x9F\x98rld 12", true); });
    attempt([&] {
      Checkpoint checkpoint = gguf_checkpoint(parts);
      read_tensors(checkpoint);
      const ModelConfig config = gguf_config(parts);
      auto model = load_model(config, std::move(checkpoint), machine.ctx, {.max_model_len = kLength});
      TestRunner runner(*model, machine.ctx, kernels::KvFormat::kBF16, 16, 4, 1);
      TestSequence sequence{{0, 0, 0}};
      runner.step({{&sequence, 2, TestRunner::Work::kNone}});
      runner.step({{&sequence, 1, TestRunner::Work::kLast}});
    });
  });
  return 0;
}
