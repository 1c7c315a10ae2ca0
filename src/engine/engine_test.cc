#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/error.h"
#include "engine/testing.h"

namespace octavo {
namespace {

TEST(Engine, RunsOneRequest) {
  FakeEngine e;
  auto stream = e.submit(greedy(1, {1, 2, 3}, 40));
  ASSERT_TRUE(stream);
  e.run();
  EXPECT_TRUE(stream->finished());
  EXPECT_EQ(stream->size(), 40);
  EXPECT_EQ(stream->info().reason, FinishReason::kLength);
  EngineStats stats = e.engine.stats();
  EXPECT_EQ(stats.kv_usage, 0);
  EXPECT_EQ(stats.prompt_tokens, 3);
  EXPECT_EQ(stats.generation_tokens, 40);
  EXPECT_EQ(stats.steps, 40);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_FALSE(e.engine.step());
}

TEST(Engine, TimesAreInOrder) {
  FakeEngine e;
  auto stream = e.submit(greedy(1, {1, 2, 3}, 4));
  e.run();
  const FinishInfo& info = stream->info();
  EXPECT_GT(info.arrival, 0);
  EXPECT_LE(info.arrival, info.scheduled);
  EXPECT_LE(info.scheduled, info.first_token);
  EXPECT_LE(info.first_token, info.last_token);
}

TEST(Engine, StopIds) {
  FakeEngine e;
  auto free = e.submit(greedy(1, {5, 6}, 20));
  e.run();
  std::vector<int32_t> text = tokens_of(*free);
  int32_t third = text[2];
  int64_t first_place = std::find(text.begin(), text.end(), third) - text.begin();

  EngineRequest eos = greedy(2, {5, 6}, 20);
  eos.sampling.eos_ids = {third};
  auto a = e.submit(eos);
  eos.id = 3;
  eos.sampling.ignore_eos = true;
  auto b = e.submit(eos);
  eos.id = 4;
  eos.sampling.stop_token_ids = {third};
  auto c = e.submit(eos);
  e.run();
  EXPECT_EQ(a->size(), first_place + 1);  // the stop token counts
  EXPECT_EQ(a->info().reason, FinishReason::kStop);
  EXPECT_EQ(a->info().stop_token, -1);
  EXPECT_EQ(tokens_of(*b), text);
  EXPECT_EQ(b->info().reason, FinishReason::kLength);
  EXPECT_EQ(c->size(), first_place + 1);
  EXPECT_EQ(c->info().stop_token, third);
}

TEST(Engine, MinTokensHoldsStopsBack) {
  FakeEngine e;
  EngineRequest request = greedy(1, {5, 6}, 30);
  for (int32_t id = 0; id < 48; ++id) request.sampling.eos_ids.push_back(id);
  request.sampling.min_tokens = 12;
  auto stream = e.submit(request);
  e.run();
  EXPECT_GE(stream->size(), 12);
  for (int i = 0; i < 12; ++i) EXPECT_GE(stream->token(i), 48);
}

TEST(Engine, ZeroTokens) {  // BL-18
  FakeEngine e;
  auto nothing = e.submit(greedy(1, {5, 6, 7}, 0));
  EngineRequest score = greedy(2, numbers(50, 3), 0);
  score.sampling.prompt_logprobs = 2;
  auto scored = e.submit(score);
  e.run();
  EXPECT_EQ(nothing->info().reason, FinishReason::kLength);
  EXPECT_EQ(nothing->size(), 0);
  EXPECT_EQ(scored->info().reason, FinishReason::kLength);
  EXPECT_EQ(scored->size(), 0);
  EXPECT_TRUE(scored->prompt_logprobs(0).empty());
  for (int64_t i = 1; i < 50; ++i) {
    auto entries = scored->prompt_logprobs(i);
    ASSERT_EQ(entries.size(), 3u);
    EXPECT_EQ(entries[0].id, score.prompt[i]);
    EXPECT_LT(entries[0].logprob, 0);
    EXPECT_GE(entries[0].rank, 1);
    EXPECT_EQ(entries[1].rank, 1);
  }
  EXPECT_EQ(e.engine.stats().prompt_tokens, 50);
}

TEST(Engine, LogprobsOfEachToken) {
  FakeEngine e;
  EngineRequest request = greedy(1, {5, 6, 7}, 5);
  request.sampling.logprobs = 3;
  auto stream = e.submit(request);
  e.run();
  for (int64_t i = 0; i < 5; ++i) {
    auto entries = stream->logprobs(i);
    ASSERT_EQ(entries.size(), 4u);
    EXPECT_EQ(entries[0].id, stream->token(i));
    EXPECT_EQ(entries[0].rank, 1);
    EXPECT_EQ(entries[1].id, stream->token(i));
    EXPECT_GE(entries[1].logprob, entries[2].logprob);
  }
}

TEST(Engine, RefusesAbsurdSteps) {
  EngineConfig config = test_config();
  config.max_num_batched_tokens = int64_t{1} << 40;
  EXPECT_THROW(FakeEngine{config}, Error);
}

TEST(Engine, RefusesWhatCanNeverFit) {  // BL-24: 48 blocks of 16 and max_model_len 2048
  EngineConfig config = test_config(48);
  FakeEngine e(config, {.max_model_len = 2048});
  EXPECT_FALSE(e.submit(greedy(1, numbers(1000, 1), 16)));
  EXPECT_EQ(e.refusal, Engine::Refusal::kTooLong);
  EXPECT_FALSE(e.submit(greedy(1, numbers(2048, 1), 1)));
  auto small = e.submit(greedy(2, {1, 2, 3, 4, 5}, 4));
  auto outgrows = e.submit(greedy(3, numbers(700, 1), 400));
  std::vector<std::shared_ptr<TokenStream>> children;
  for (uint64_t id = 10; id < 18; ++id) children.push_back(e.submit(greedy(id, numbers(150, 1), 20)));
  e.run();
  EXPECT_EQ(small->size(), 4);
  EXPECT_EQ(outgrows->info().reason, FinishReason::kLength);
  EXPECT_EQ(outgrows->size(), 48 * 16 + 1 - 700);  // the last token needs no KV
  for (auto& child : children) EXPECT_EQ(child->size(), 20);
  EXPECT_EQ(e.engine.stats().kv_usage, 0);
}

TEST(Engine, RefusesForeignTokensAndFullQueues) {
  EngineConfig config = test_config();
  config.max_num_queued_reqs = 2;
  config.max_num_queued_tokens = 10;
  FakeEngine e(config);
  EXPECT_FALSE(e.submit(greedy(1, {97}, 4)));
  EXPECT_EQ(e.refusal, Engine::Refusal::kBadToken);
  EXPECT_FALSE(e.submit(greedy(1, {-1}, 4)));
  EXPECT_FALSE(e.submit(greedy(1, numbers(11, 0), 4)));
  EXPECT_EQ(e.refusal, Engine::Refusal::kQueueFull);
  EXPECT_TRUE(e.submit(greedy(1, {1}, 4)));
  EXPECT_TRUE(e.submit(greedy(2, {1}, 4)));
  EXPECT_FALSE(e.submit(greedy(3, {1}, 4)));
  EXPECT_EQ(e.refusal, Engine::Refusal::kQueueFull);
  e.run();
  EXPECT_TRUE(e.submit(greedy(3, {1}, 4)));
  e.engine.abort(3);
  e.run();
  EXPECT_TRUE(e.submit(greedy(4, {1}, 4)));
  EXPECT_TRUE(e.submit(greedy(5, {1}, 4)));
}

TEST(Engine, AbortFreesAtOnce) {  // BL-29
  FakeEngine e;
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t id = 1; id <= 4; ++id) streams.push_back(e.submit(greedy(id, numbers(100, 3), 4000)));
  e.engine.step();
  EXPECT_GT(e.engine.stats().kv_usage, 0);
  for (uint64_t id = 1; id <= 4; ++id) e.engine.abort(id);
  e.engine.abort(77);
  EXPECT_TRUE(e.engine.step());
  EXPECT_EQ(e.engine.stats().kv_usage, 0);
  EXPECT_EQ(e.engine.stats().running, 0);
  for (auto& stream : streams) EXPECT_EQ(stream->info().reason, FinishReason::kAbort);
  auto next = e.submit(greedy(9, {1}, 3));
  e.run();
  EXPECT_EQ(next->size(), 3);
}

TEST(Engine, AbortOfAWaitingRequest) {
  EngineConfig config = test_config();
  config.max_num_seqs = 1;
  FakeEngine e(config);
  auto first = e.submit(greedy(1, {1}, 10));
  auto second = e.submit(greedy(2, {2}, 10));
  e.engine.step();
  EXPECT_EQ(e.engine.stats().waiting, 1);
  e.engine.abort(2);
  e.run();
  EXPECT_EQ(first->size(), 10);
  EXPECT_EQ(second->size(), 0);
  EXPECT_EQ(second->info().reason, FinishReason::kAbort);
}

TEST(Engine, NanEndsOnlyItsRequest) {  // BL-42
  FakeEngine calm;
  auto healthy = calm.submit(greedy(1, {1, 2, 3}, 20));
  calm.run();
  std::vector<int32_t> alone = tokens_of(*healthy);
  int32_t nan_token = 4;
  while (std::count(alone.begin(), alone.end(), nan_token)) ++nan_token;
  FakeEngine e(test_config(), {.nan_token = nan_token});
  auto sick = e.submit(greedy(2, {1, 2, nan_token}, 20));
  auto neighbour = e.submit(greedy(3, {1, 2, 3}, 20));
  e.run();
  EXPECT_EQ(sick->info().reason, FinishReason::kError);
  EXPECT_NE(sick->info().error.find("NaN"), std::string::npos);
  EXPECT_EQ(sick->size(), 0);
  EXPECT_EQ(tokens_of(*neighbour), alone);
  EXPECT_EQ(e.engine.stats().corrupted_requests, 1);
  EXPECT_EQ(e.engine.stats().kv_usage, 0);
}

/// A real model, but a sequence with the poison token leaves NaN in its KV blocks and, if wanted, in its
/// logits.
class PoisonedModel : public Model {
 public:
  PoisonedModel(std::unique_ptr<Model> inner, int32_t poison, bool logits)
      : inner_(std::move(inner)), poison_(poison), logits_(logits) {}
  const ModelInfo& info() const override { return inner_->info(); }
  void forward(OpContext& ctx, const StepInput& step, const KvStore& kv, float* logits) override {
    inner_->forward(ctx, step, kv, logits);
    for (int s = 0; s < step.num_seqs; ++s) {
      const int32_t *begin = step.token_ids + step.query_start[s],
                    *end = step.token_ids + step.query_start[s + 1];
      if (std::find(begin, end, poison_) == end) continue;
      for (size_t g = 0; g < info().kv_groups.size(); ++g) spoil(step, s, g, kv);
      for (int r = 0; logits_ && r < step.num_logit_rows; ++r)
        if (step.logit_rows[r] >= step.query_start[s] && step.logit_rows[r] < step.query_start[s + 1])
          std::fill_n(logits + r * info().vocab, info().vocab, std::nanf(""));
    }
  }

 private:
  void spoil(const StepInput& step, int s, size_t g, const KvStore& kv) {
    const KvGroupStep& group = step.kv_groups[g];
    for (int64_t i = 0; i * kv.regions[0].block_size < step.context_len[s]; ++i) {
      int32_t block = group.block_tables[s * group.max_blocks + i];
      for (const kernels::KvView& view : kv.regions)
        if (block >= 0)
          std::memset(view.base + block * view.kv_heads * view.head_bytes, 0xff,
                      view.kv_heads * view.head_bytes);
    }
  }
  std::unique_ptr<Model> inner_;
  const int32_t poison_;
  const bool logits_;
};

/// BL-42: NaN keys and values reach neither the neighbour nor those who get the blocks next; also when nobody
/// noticed them (a prefill aborted half way).
TEST(Engine, NanInTheCacheDoesNotSpread) {
  for (const char* name : {"llama-bias-gqa3-tied", "mistral-swa32"}) {
    EngineConfig config = test_config(8);  // few blocks: all are used again
    config.max_num_batched_tokens = 48;
    std::vector<int32_t> prompt = numbers(37, 5, 400), poisoned = numbers(60, 3, 400);
    poisoned[20] = 450;
    Engine calm(golden_model(name), config, test_team(), kernels::select());
    auto alone = calm.submit(greedy(1, prompt, 20), nullptr);
    while (calm.step()) {
    }
    for (bool noticed : {true, false}) {
      Engine engine(std::make_unique<PoisonedModel>(golden_model(name), 450, noticed), config, test_team(),
                    kernels::select());
      auto sick = engine.submit(greedy(1, poisoned, 20), nullptr);
      engine.step();
      auto beside = engine.submit(greedy(2, prompt, 20), nullptr);
      if (!noticed) engine.abort(1);
      while (engine.step()) {
      }
      auto after = engine.submit(greedy(3, prompt, 20), nullptr);
      while (engine.step()) {
      }
      EXPECT_EQ(sick->info().reason, noticed ? FinishReason::kError : FinishReason::kAbort);
      EXPECT_EQ(tokens_of(*beside), tokens_of(*alone)) << name << noticed;
      EXPECT_EQ(tokens_of(*after), tokens_of(*alone)) << name << noticed;
    }
  }
}

TEST(Engine, AStepThatThrowsEndsItsRequestsOnly) {
  EngineConfig config = test_config();
  config.max_num_seqs = 2;
  FakeEngine e(config, {.throw_token = 13});
  auto a = e.submit(greedy(1, numbers(40, 1), 5));
  auto b = e.submit(greedy(2, {13}, 5));
  auto later = e.submit(greedy(3, numbers(40, 1), 5));
  e.run();
  EXPECT_EQ(a->info().reason, FinishReason::kError);
  EXPECT_EQ(b->info().reason, FinishReason::kError);
  EXPECT_NE(b->info().error.find("told to throw"), std::string::npos);
  EXPECT_EQ(later->size(), 5);
  EXPECT_EQ(later->info().cached_tokens, 0);  // nothing of the failed step was believed
}

TEST(Engine, PrefixHits) {  // issue section 8.4
  EngineConfig config = test_config();
  FakeEngine e(config);
  std::vector<int32_t> prompt = numbers(1000, 1);
  e.submit(greedy(1, prompt, 1));
  e.run();
  prompt.resize(1010, 5);
  auto second = e.submit(greedy(2, prompt, 1));
  EngineRequest salted = greedy(3, prompt, 1);
  salted.cache_salt = "someone else";
  auto third = e.submit(salted);
  e.run();
  EXPECT_EQ(second->info().cached_tokens, 992);
  EXPECT_EQ(third->info().cached_tokens, 0);
  EXPECT_EQ(tokens_of(*second), tokens_of(*third));
  EngineStats stats = e.engine.stats();
  EXPECT_EQ(stats.prefix_queries, 1000 + 1010 + 1010);
  EXPECT_EQ(stats.prefix_hits, 992);
  EXPECT_TRUE(e.engine.reset_prefix_cache());
  auto fourth = e.submit(greedy(4, prompt, 1));
  EXPECT_TRUE(e.engine.step());
  EXPECT_EQ(fourth->info().cached_tokens, 0);
}

TEST(Engine, SeededRequestRepeatsAmongUnseeded) {  // BL-14
  auto request = [](uint64_t id, std::optional<int64_t> seed) {
    EngineRequest r = greedy(id, {4, 5, 6}, 16);
    r.sampling.temperature = 0.8f;
    r.sampling.seed = seed;
    return r;
  };
  FakeEngine e;
  auto alone = e.submit(request(1, 42));
  e.run();
  std::vector<std::vector<int32_t>> unseeded;
  for (uint64_t round = 0; round < 10; ++round) {
    auto b = e.submit(request(100 + 3 * round, std::nullopt));
    if (round % 2) e.engine.step();
    auto a = e.submit(request(101 + 3 * round, 42));
    auto c = e.submit(request(102 + 3 * round, 43));
    e.run();
    EXPECT_EQ(tokens_of(*a), tokens_of(*alone));
    EXPECT_NE(tokens_of(*c), tokens_of(*alone));
    unseeded.push_back(tokens_of(*b));
  }
  for (size_t i = 1; i < unseeded.size(); ++i) EXPECT_NE(unseeded[i], unseeded[0]);
}

TEST(Engine, RowsSampledInParallelAreTheSame) {
  FakeEngine e(test_config(), {.vocab = 30000});
  auto request = [](uint64_t id, int32_t i) {
    EngineRequest r = greedy(id, {i, 5, 6}, 12);
    r.sampling.temperature = 0.8f;
    r.sampling.seed = i;
    r.sampling.logprobs = 2;
    return r;
  };
  std::vector<std::shared_ptr<TokenStream>> together, alone;
  for (int32_t i = 0; i < 12; ++i) together.push_back(e.submit(request(1 + i, i)));
  e.run();
  for (int32_t i = 0; i < 12; ++i) {
    alone.push_back(e.submit(request(100 + i, i)));
    e.run();
    EXPECT_EQ(tokens_of(*alone[i]), tokens_of(*together[i]));
    EXPECT_EQ(alone[i]->logprobs(11)[2].logprob, together[i]->logprobs(11)[2].logprob);
  }
}

TEST(Engine, ReportsSteps) {
  FakeEngine e;
  std::vector<int64_t> reports;
  e.engine.set_listener([&](const StepReport& report) { reports.push_back(report.tokens); });
  for (uint64_t id = 1; id <= 10; ++id) {
    e.submit(greedy(id, numbers(7, static_cast<int32_t>(id)), 10));
    e.run();
  }
  EXPECT_EQ(reports.size(), 100u);  // n * m steps, n * (p + m) tokens, as vLLM's tests count them
  int64_t sum = 0;
  for (int64_t tokens : reports) sum += tokens;
  EXPECT_EQ(sum, 10 * (7 + 10));
}

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST(Engine, IdleUsesNoCpu) {
  FakeEngine e;
  e.engine.start();
  auto stream = e.submit(greedy(1, {1, 2}, 5));
  while (!stream->finished()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  double before = thread_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(thread_seconds() - before, 0.003);
  EXPECT_TRUE(e.engine.reset_prefix_cache());
  e.engine.stop();
}

TEST(Engine, FirstTokensAfterAbortAndIdle) {  // BL-46: workers were parked, blocks given back half written
  Engine engine(golden_model("qwen3-tied"), test_config(64), test_team(), kernels::select());
  engine.start();
  uint64_t id = 0;
  auto run = [&] {
    auto stream = engine.submit(greedy(++id, numbers(40, 3, 500), 8), nullptr);
    while (!stream->finished()) std::this_thread::yield();
    return tokens_of(*stream);
  };
  const std::vector<int32_t> expected = run();
  ASSERT_EQ(expected.size(), 8u);
  for (int round = 0; round < 10; ++round) {
    auto left = engine.submit(greedy(++id, numbers(40 + round, round % 2 ? 3 : 5, 500), 900), nullptr);
    while (left->size() < round && !left->finished()) std::this_thread::yield();
    engine.abort(left->id());
    while (!left->finished()) std::this_thread::yield();
    EXPECT_EQ(left->info().reason, FinishReason::kAbort);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // 300 us park a worker
    EXPECT_EQ(engine.stats().kv_usage, 0);
    EXPECT_EQ(engine.stats().running + engine.stats().waiting, 0);
    const double before = thread_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LT(thread_seconds() - before, 0.002);
    EXPECT_EQ(run(), expected) << round;
  }
  engine.stop();
}

TEST(Engine, ThreadsSubmitAndAbort) {
  EngineConfig config = test_config(64);
  FakeEngine e(config);
  e.engine.start();
  constexpr int kThreads = 4, kRequests = 40;
  std::vector<std::thread> threads;
  std::atomic<int> ended{0};
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRequests; ++i) {
        uint64_t id = static_cast<uint64_t>(t * 1000 + i + 1);
        auto stream = e.engine.submit(greedy(id, numbers(20 + i, t), 30), nullptr);
        ASSERT_TRUE(stream);
        int64_t seen = 0;
        while (!stream->finished()) {
          for (; seen < stream->size(); ++seen) ASSERT_LT(stream->token(seen), 97);
          const auto [size, finished] = stream->seen();
          ASSERT_TRUE(size < 30 || finished) << "the last token came before the end";
          if (i % 3 == 0 && seen > 5) e.engine.abort(id);
          if (i % 7 == 0) e.engine.abort(id);
          std::this_thread::yield();
        }
        FinishReason reason = stream->info().reason;
        ASSERT_TRUE(reason == FinishReason::kLength || reason == FinishReason::kAbort);
        ++ended;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ended, kThreads * kRequests);
  EXPECT_EQ(e.engine.stats().kv_usage, 0);
  auto last = e.submit(greedy(99999, {1}, 1000));
  e.engine.stop();
  EXPECT_TRUE(last->finished());
  Engine::Refusal refusal;
  EXPECT_FALSE(e.engine.submit(greedy(100000, {1}, 1), &refusal));
  EXPECT_EQ(refusal, Engine::Refusal::kStopping);
}

}  // namespace
}  // namespace octavo
