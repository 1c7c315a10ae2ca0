#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine/fake_model.h"

namespace octavo {
namespace {

EngineConfig small_config() {
  EngineConfig config;
  config.block_size = 16;
  config.num_blocks_override = 256;
  config.max_num_seqs = 16;
  return config;
}

Team& test_team() {
  static Team team({.cpus = {0, 1}, .pin = false});
  return team;
}

EngineRequest greedy(uint64_t id, std::vector<int32_t> prompt, int64_t max_tokens) {
  EngineRequest request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

TEST(Engine, RunsOneRequest) {
  auto model = std::make_unique<FakeModel>();
  FakeModel* fake = model.get();
  Engine engine(std::move(model), small_config(), test_team(), kernels::select());
  Engine::Refusal refusal;
  auto stream = engine.submit(greedy(1, {1, 2, 3}, 40), &refusal);
  ASSERT_TRUE(stream);
  while (engine.step()) {
  }
  EXPECT_TRUE(stream->finished());
  EXPECT_EQ(stream->size(), 40);
  EXPECT_EQ(stream->info().reason, FinishReason::kLength);
  EXPECT_EQ(fake->faults(), 0);
  EXPECT_EQ(engine.stats().kv_usage, 0);
}

}  // namespace
}  // namespace octavo
