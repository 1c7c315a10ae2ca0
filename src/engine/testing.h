// What the engine's tests share.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_model.h"
#include "model/registry.h"

namespace octavo {

inline Team& test_team() {
  static Team team({.cpus = {0, 1}, .pin = false});
  return team;
}

inline EngineConfig test_config(int64_t num_blocks = 256) {
  EngineConfig config;
  config.block_size = 16;
  config.num_blocks_override = num_blocks;
  config.max_num_seqs = 16;
  config.kv_format = kernels::KvFormat::kF32;
  return config;
}

inline EngineRequest greedy(uint64_t id, std::vector<int32_t> prompt, int64_t max_tokens) {
  EngineRequest request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

inline std::vector<int32_t> numbers(int64_t count, int32_t first, int32_t vocab = 97) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((first + i * i * 7 + i) % vocab));
  return tokens;
}

/// An engine over a FakeModel that is stepped by hand.
struct FakeEngine {
  explicit FakeEngine(const EngineConfig& config = test_config(), FakeModelOptions options = {})
      : FakeEngine(config, std::make_unique<FakeModel>(std::move(options))) {}
  FakeEngine(const EngineConfig& config, std::unique_ptr<FakeModel> fake)
      : model(fake.get()), engine(std::move(fake), config, test_team(), kernels::select()) {}
  ~FakeEngine() { OCTAVO_CHECK(model->faults() == 0, model->faults(), " faults seen by the fake model"); }

  std::shared_ptr<TokenStream> submit(EngineRequest request) {
    std::shared_ptr<TokenStream> stream = engine.submit(std::move(request), &refusal);
    return stream;
  }
  void run() {
    while (engine.step()) {
    }
  }

  FakeModel* model;
  Engine engine;
  Engine::Refusal refusal = Engine::Refusal::kNone;
};

inline std::vector<int32_t> tokens_of(const TokenStream& stream) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < stream.size(); ++i) tokens.push_back(stream.token(i));
  return tokens;
}

/// A checkpoint of the golden models.
inline std::unique_ptr<Model> golden_model(const std::string& name,
                                           kernels::WeightFormat dtype = kernels::WeightFormat::kF32) {
  Workspace workspace(size_t{1} << 30);
  OpContext ctx{test_team(), workspace, kernels::select()};
  std::string folder = std::string(OCTAVO_SHARED_DIR "/golden/models/") + name;
  return load_model(load_model_config(folder), open_checkpoint(folder), ctx, {.dtype = dtype});
}

}  // namespace octavo
