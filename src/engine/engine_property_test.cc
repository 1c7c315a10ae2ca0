// Whatever runs beside a request, whenever it arrives, is cut into chunks, preempted or finds cached blocks:
// its tokens are those that it gives alone.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "base/error.h"
#include "engine/testing.h"

namespace octavo {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kSeeds = 4;  // ten times as slow there
#else
constexpr unsigned kSeeds = 25;
#endif

using Random = std::mt19937;
int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

EngineRequest random_request(Random& random, uint64_t id, int64_t vocab, int64_t longest) {
  // A few shared beginnings make prefix hits.
  std::vector<int32_t> prompt = numbers(
      pick(random, 0, longest / 2), static_cast<int32_t>(pick(random, 0, 3)), static_cast<int32_t>(vocab));
  if (pick(random, 0, 3) == 0) {  // blocks of the same content after different beginnings
    prompt.clear();
    for (int64_t blocks = pick(random, 1, longest / 32); blocks-- > 0;)
      prompt.insert(prompt.end(), 16, static_cast<int32_t>(pick(random, 0, 1)));
  }
  int64_t tail = pick(random, 1, longest / 2);
  for (int64_t i = 0; i < tail; ++i) prompt.push_back(static_cast<int32_t>(pick(random, 0, vocab - 1)));
  EngineRequest r = greedy(id, std::move(prompt), pick(random, 1, 120));
  r.priority = static_cast<int32_t>(pick(random, -1, 1));
  SamplingParams& p = r.sampling;
  if (pick(random, 0, 1)) {
    p.temperature = 0.9f;
    p.seed = pick(random, 0, 5);
    if (pick(random, 0, 2) == 0) p.top_k = 10;
    if (pick(random, 0, 2) == 0) p.top_p = 0.8f;
    if (pick(random, 0, 2) == 0) p.min_p = 0.02f;
  }
  if (pick(random, 0, 3) == 0) p.repetition_penalty = 1.3f;
  if (pick(random, 0, 3) == 0) p.frequency_penalty = 0.4f;
  if (pick(random, 0, 5) == 0) p.prompt_logprobs = 1;
  if (pick(random, 0, 5) == 0) p.logprobs = 2;
  if (pick(random, 0, 3) == 0) p.eos_ids = {static_cast<int32_t>(pick(random, 0, vocab - 1))};
  if (pick(random, 0, 9) == 0) r.cache_salt = "salt";
  return r;
}

struct Outcome {
  std::vector<int32_t> tokens;
  FinishReason reason;
  std::vector<float> prompt_logprobs;
};

Outcome outcome_of(const TokenStream& stream, const EngineRequest& request) {
  Outcome outcome{tokens_of(stream), stream.info().reason, {}};
  if (request.sampling.prompt_logprobs >= 0 && stream.info().reason != FinishReason::kAbort)
    for (size_t i = 1; i < request.prompt.size(); ++i)
      outcome.prompt_logprobs.push_back(stream.prompt_logprobs(static_cast<int64_t>(i))[0].logprob);
  return outcome;
}

void expect_as_alone(const EngineRequest& request, const TokenStream& stream, Engine& solo,
                     uint64_t solo_id) {
  EngineRequest copy = request;
  copy.id = solo_id;
  auto alone = solo.submit(copy, nullptr);
  while (solo.step()) {
  }
  Outcome expected = outcome_of(*alone, request), actual = outcome_of(stream, request);
  ASSERT_TRUE(stream.finished());
  ASSERT_TRUE(actual.reason != FinishReason::kError && actual.reason != FinishReason::kNone);
  bool whole = actual.tokens.size() == expected.tokens.size();
  ASSERT_TRUE(whole || actual.reason != FinishReason::kStop);
  ASSERT_LE(actual.tokens.size(), expected.tokens.size());
  expected.tokens.resize(actual.tokens.size());  // aborted, or outgrew the small pool
  ASSERT_EQ(actual.tokens, expected.tokens) << "request " << request.id;
  ASSERT_TRUE(actual.prompt_logprobs.empty() || actual.prompt_logprobs == expected.prompt_logprobs);
}

struct Mix {
  int requests = 30;
  int64_t longest = 160, vocab = 97;
};

EngineConfig random_config(Random& random, int64_t least_blocks) {
  EngineConfig config = test_config(pick(random, least_blocks, 2 * least_blocks));
  config.max_num_batched_tokens = pick(random, 0, 1) ? pick(random, 8, 64) : 2048;
  config.max_num_seqs = static_cast<int>(pick(random, 1, 8));
  config.enable_prefix_caching = pick(random, 0, 3) > 0;
  config.policy = pick(random, 0, 1) ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
  config.long_prefill_token_threshold = pick(random, 0, 2) ? 0 : 24;
  return config;
}

/// Returns the number of preemptions and of prefix hits, so that a test can see that it tested them.
EngineStats run_mix(Random& random, const Mix& mix, Engine& engine, Engine& solo, uint64_t* solo_id) {
  std::vector<EngineRequest> requests;
  std::vector<std::shared_ptr<TokenStream>> streams;
  while (static_cast<int>(requests.size()) < mix.requests) {
    for (int64_t burst = pick(random, 0, 4); burst-- > 0;) {
      requests.push_back(random_request(random, requests.size() + 1, mix.vocab, mix.longest));
      if (auto stream = engine.submit(requests.back(), nullptr))
        streams.push_back(stream);
      else
        requests.pop_back();
    }
    if (!streams.empty() && pick(random, 0, 9) == 0)
      engine.abort(static_cast<uint64_t>(pick(random, 1, static_cast<int64_t>(requests.size()))));
    for (int64_t steps = pick(random, 0, 6); steps-- > 0;) engine.step();
  }
  while (engine.step()) {
  }
  for (size_t i = 0; i < requests.size(); ++i) expect_as_alone(requests[i], *streams[i], solo, ++*solo_id);
  EXPECT_EQ(engine.stats().kv_usage, 0);
  EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
  return engine.stats();
}

void fake_mixes(const std::vector<KvGroupSpec>& groups, int64_t least_blocks, unsigned first_seed,
                int64_t least_preemptions) {
  int64_t preemptions = 0, hits = 0;
  EngineConfig calm = test_config(2000);
  calm.enable_prefix_caching = false;
  FakeEngine solo(calm, {.kv_groups = groups});
  uint64_t solo_id = 0;
  for (unsigned seed = first_seed; seed < first_seed + kSeeds; ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    Random random(seed);
    FakeEngine busy(random_config(random, least_blocks), {.kv_groups = groups});
    EngineStats stats = run_mix(random, {}, busy.engine, solo.engine, &solo_id);
    ASSERT_EQ(busy.model->faults(), 0);
    if (testing::Test::HasFatalFailure()) return;
    preemptions += stats.preemptions;
    hits += stats.prefix_hits;
  }
  if (kSeeds < 25) return;
  EXPECT_GE(preemptions, least_preemptions);
  EXPECT_GT(hits, 500);
}

TEST(EngineProperty, FullAttention) { fake_mixes({{2, 0}}, 12, 1, 15); }
TEST(EngineProperty, SlidingWindow) { fake_mixes({{2, 40}}, 9, 101, 1); }  // which hardly grow
TEST(EngineProperty, FullAndSliding) { fake_mixes({{1, 0}, {2, 40}}, 18, 201, 5); }
TEST(EngineProperty, TwoWindowsAndFull) { fake_mixes({{1, 33}, {1, 0}, {1, 7}}, 26, 301, 5); }

void golden_mixes(const std::string& name, int64_t least_blocks, kernels::WeightFormat dtype,
                  kernels::KvFormat kv_format) {
  EngineConfig calm = test_config(500);
  calm.enable_prefix_caching = false;
  calm.kv_format = kv_format;
  Engine solo(golden_model(name, dtype), calm, test_team(), kernels::select());
  uint64_t solo_id = 0;
  for (unsigned seed = 1; seed <= std::min(3u, kSeeds / 4); ++seed) {
    SCOPED_TRACE(str(name, " seed ", seed));
    Random random(seed);
    EngineConfig config = random_config(random, least_blocks);
    config.kv_format = kv_format;
    Engine busy(golden_model(name, dtype), config, test_team(), kernels::select());
    run_mix(random, {.requests = 16, .vocab = solo.model_info().vocab}, busy, solo, &solo_id);
  }
}

TEST(EngineProperty, GoldenLlama) {
  golden_mixes("llama-bias-gqa3-tied", 12, kernels::WeightFormat::kF32, kernels::KvFormat::kF32);
}
TEST(EngineProperty, GoldenLlamaInBF16) {
  golden_mixes("llama3-rope-sharded", 12, kernels::WeightFormat::kBF16, kernels::KvFormat::kBF16);
}
TEST(EngineProperty, GoldenMistralWithWindow) {
  golden_mixes("mistral-swa32", 9, kernels::WeightFormat::kBF16, kernels::KvFormat::kF32);
}

/// BL-14: what a seed gives, whoever shares the batch (most without a seed of their own), whenever it comes
/// and however often it is preempted. The three seeds are what n = 3 makes of one request (Frontend::submit).
template <class Make>
void seeded_among_strangers(const Make& engine_of, int64_t vocab) {
  auto request = [&](uint64_t id, std::optional<int64_t> seed, int variant) {
    EngineRequest r =
        greedy(id, numbers(20, static_cast<int32_t>(seed ? 3 : id), static_cast<int32_t>(vocab)), 70);
    r.sampling.temperature = 0.8f;
    r.sampling.seed = seed;
    if (variant == 1) r.sampling.top_p = 0.9f;
    if (variant == 2) r.sampling.frequency_penalty = 0.5f, r.sampling.repetition_penalty = 1.2f;
    return r;
  };
  constexpr int kRounds = kSeeds < 25 ? 3 : 10;
  auto finish = [](Engine& engine) {
    while (engine.step()) {
    }
  };
  for (int variant = 0; variant < 3; ++variant) {
    std::vector<std::vector<int32_t>> alone;
    for (int64_t seed : {42, 43, 44}) {
      auto engine = engine_of(64, true);
      auto stream = engine->submit(request(1, seed, variant), nullptr);
      finish(*engine);
      alone.push_back(tokens_of(*stream));
      ASSERT_EQ(alone.back().size(), 70u);
    }
    ASSERT_TRUE(alone[0] != alone[1] && alone[1] != alone[2] && alone[0] != alone[2]);
    int64_t preemptions = 0;
    for (int round = 0; round < kRounds; ++round) {
      auto engine = engine_of(18, round % 2 == 0);  // 18 blocks: three of these sequences
      uint64_t id = 0;
      std::vector<std::shared_ptr<TokenStream>> strangers, seeded;
      for (int i = 0; i < 2 + round % 3; ++i)
        strangers.push_back(engine->submit(request(100 + ++id, std::nullopt, i % 3), nullptr));
      for (int i = 0; i < 5 * round; ++i) engine->step();  // late to a batch that runs
      for (int64_t seed : {42, 43, 44})
        seeded.push_back(engine->submit(request(++id, seed, variant), nullptr));
      finish(*engine);
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(tokens_of(*seeded[i]), alone[i]) << "variant " << variant << " round " << round;
        preemptions += seeded[i]->info().preemptions;
      }
    }
    EXPECT_GE(preemptions, kRounds) << variant;
  }
}

TEST(EngineProperty, SeededAmongStrangers) {
  auto engine_of = [](int64_t blocks, bool caching) {
    EngineConfig config = test_config(blocks);
    config.enable_prefix_caching = caching;
    return std::make_unique<Engine>(std::make_unique<FakeModel>(), config, test_team(), kernels::select());
  };
  seeded_among_strangers(engine_of, 97);
}
TEST(EngineProperty, SeededAmongStrangersGolden) {
  auto engine_of = [](int64_t blocks, bool caching) {
    EngineConfig config = test_config(blocks);
    config.enable_prefix_caching = caching;
    return std::make_unique<Engine>(golden_model("qwen3-tied"), config, test_team(), kernels::select());
  };
  seeded_among_strangers(engine_of, 500);
}

/// BL-25: the same set one by one, at once, in small steps, twice with the prefix cache, staggered.
TEST(EngineProperty, BatchedAsAlone) {
  const std::vector<int64_t> lengths = {5, 33, 64, 100, 217, 300, 512, 700};
  auto run = [&](bool together, int64_t budget, int rounds, int stagger) {
    EngineConfig config = test_config(2000);
    config.max_num_batched_tokens = budget;
    config.enable_prefix_caching = rounds > 1;
    Engine engine(golden_model("qwen3-tied"), config, test_team(), kernels::select());
    std::vector<std::vector<int32_t>> texts;
    uint64_t id = 0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::shared_ptr<TokenStream>> streams;
      for (size_t i = 0; i < lengths.size(); ++i) {
        streams.push_back(
            engine.submit(greedy(++id, numbers(lengths[i], static_cast<int32_t>(i), 500), 24), nullptr));
        for (int s = 0; s < stagger; ++s) engine.step();
        while (!together && engine.step()) {
        }
      }
      while (engine.step()) {
      }
      texts.clear();
      for (auto& stream : streams) texts.push_back(tokens_of(*stream));
    }
    return texts;
  };
  auto alone = run(false, 2048, 1, 0);
  ASSERT_EQ(alone.size(), lengths.size());
  EXPECT_EQ(run(true, 2048, 1, 0), alone);
  EXPECT_EQ(run(true, 64, 1, 0), alone);
  EXPECT_EQ(run(true, 2048, 2, 0), alone);
  EXPECT_EQ(run(true, 64, 2, 3), alone);
}

}  // namespace
}  // namespace octavo
