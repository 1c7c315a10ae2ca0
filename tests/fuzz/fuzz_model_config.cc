// config.json to a model that runs: a small model of any accepted config, with random weights, computes a
// prompt and one more token.
#include <cmath>

#include "attempt.h"
#include "load/json.h"
#include "model/testing.h"

namespace {

using namespace octavo;

constexpr int64_t kLength = 32;  // tokens that the model must be ready for

bool is_small(const ModelConfig& config) {
  return config.hidden <= 128 && config.intermediate <= 256 && config.vocab <= 512 && config.layers <= 4 &&
         config.head_dim <= 128 && config.heads * config.head_dim <= 256 &&
         config.word_embed_proj_dim <= 128 && config.max_position_embeddings <= 1 << 16;
}

/// Weights in [-0.25, 0.25] of any shape, all from one buffer.
Checkpoint random_checkpoint() {
  static const std::vector<BFloat16> buffer = [] {
    std::vector<BFloat16> out(1 << 24);
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = to_bf16(static_cast<float>(i * 2654435761u % 1024) / 2048 - 0.25f);
    return out;
  }();
  Checkpoint out("fuzz");
  out.set_generator([](const std::string& name, const Shape& shape) -> TensorView {
    OCTAVO_CHECK(shape.elements() <= static_cast<int64_t>(buffer.size()), name);
    return {DType::kBF16, shape, reinterpret_cast<const std::byte*>(buffer.data())};
  });
  return out;
}

void run(const ModelConfig& config) {
  static TestMachine machine(kernels::select("scalar"), {0});
  auto model = load_model(config, random_checkpoint(), machine.ctx, {.max_model_len = kLength});
  TestRunner runner(*model, machine.ctx, kernels::KvFormat::kBF16, 16, 8, 1);
  TestSequence sequence{std::vector<int32_t>(20)};
  runner.step({{&sequence, 19, TestRunner::Work::kNone}});
  runner.step({{&sequence, 1, TestRunner::Work::kLast}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  fuzz::attempt([&] {
    ModelConfig config =
        parse_config(parse_json({reinterpret_cast<const char*>(bytes), size}, "fuzz"), "fuzz");
    config.quantization = nullptr;  // fuzz_quant
    if (is_small(config)) run(config);
  });
  return 0;
}
