#include "frontend/frontend.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/fake_model.h"
#include "frontend/api_error.h"
#include "frontend/fake_text.h"

namespace octavo {
namespace {

class FrontendTest : public ::testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig out;
    out.kv_cache_bytes = 8 << 20;
    out.max_model_len = 512;
    return out;
  }

  struct Output {
    std::string text, stop_string;
    FinishReason finish = FinishReason::kNone;
    int32_t stop_token = -1;
    std::vector<int32_t> tokens;
    int finishes = 0;
  };

  /// Reads a stream to its end; one entry per child.
  std::map<int, Output> read(Stream& stream) {
    std::map<int, Output> out;
    TextDelta delta;
    while (!stream.done()) {
      if (!stream.next(delta)) {
        frontend_.wait(0.05);
        continue;
      }
      Output& child = out[delta.index];
      child.text += delta.text;
      child.tokens.insert(child.tokens.end(), delta.tokens.begin(), delta.tokens.end());
      if (delta.finish == FinishReason::kNone) continue;
      ++child.finishes;
      child.finish = delta.finish;
      child.stop_string = delta.stop_string;
      child.stop_token = delta.stop_token;
    }
    return out;
  }

  Output generate(GenerateRequest request) { return read(*frontend_.submit(request))[0]; }

  static GenerateRequest greedy(const std::string& prompt, int64_t max_tokens) {
    GenerateRequest request{.prompt = prompt};
    request.sampling.temperature = 0;
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  void wait_idle() {
    for (int i = 0;
         i < 200 && (engine_.stats().running + engine_.stats().waiting > 0 || frontend_.active() > 0); ++i)
      frontend_.wait(0.01);
    EXPECT_EQ(engine_.stats().running, 0);
    EXPECT_EQ(engine_.stats().kv_usage, 0);
    EXPECT_EQ(frontend_.active(), 0u);
  }

  Team team_{TeamOptions{{0}, false}};
  FakeText text_;
  Engine engine_{std::make_unique<FakeModel>(), config(), team_, kernels::select()};
  Frontend frontend_{engine_, text_, {.defaults = {}, .eos_ids = {kFakeEos}}};
  void SetUp() override { engine_.start(); }
  void TearDown() override { engine_.stop(); }
};

TEST_F(FrontendTest, TextOfAllTokens) {
  Output out = generate(greedy("hello", 40));
  EXPECT_EQ(out.tokens.size(), 40u);
  EXPECT_EQ(out.text, text_.decode(out.tokens, true));
  EXPECT_EQ(out.finish, FinishReason::kLength);
  EXPECT_EQ(out.finishes, 1);
  wait_idle();
}

TEST_F(FrontendTest, StopStringCutsTextAndFreesTheRequest) {
  std::string whole = generate(greedy("abc", 60)).text;
  std::string stop = whole.substr(20, 3);
  size_t at = whole.find(stop);
  GenerateRequest request = greedy("abc", 60);
  request.sampling.stop = {stop};
  auto stream = frontend_.submit(request);
  Output out = read(*stream)[0];
  EXPECT_EQ(out.text, whole.substr(0, at));
  EXPECT_EQ(out.stop_string, stop);
  EXPECT_EQ(out.finish, FinishReason::kStop);
  EXPECT_EQ(stream->usage().completion_tokens, static_cast<int64_t>(at + 3));
  wait_idle();
}

// BL-14: n choices differ from each other and repeat as a set, alone or beside requests without a seed.
TEST_F(FrontendTest, SeededChoicesRepeatAmongStrangers) {
  auto sampled = [](const std::string& prompt, std::optional<int64_t> seed, int64_t n) {
    GenerateRequest request = greedy(prompt, 60);
    request.sampling.temperature = 0.8;
    request.sampling.seed = seed;
    request.sampling.n = n;
    return request;
  };
  auto texts = [&](Stream& stream) {
    std::vector<std::string> out;
    for (auto& [index, child] : read(stream)) out.push_back(child.text);
    return out;
  };
  const std::vector<std::string> alone = texts(*frontend_.submit(sampled("Name a river:", 42, 3)));
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_TRUE(alone[0] != alone[1] && alone[1] != alone[2] && alone[0] != alone[2]);
  EXPECT_EQ(texts(*frontend_.submit(sampled("Name a river:", 42, 1))), std::vector<std::string>{alone[0]});
  std::vector<std::string> strangers;
  for (int round = 0; round < 10; ++round) {
    auto before = frontend_.submit(sampled("Name a river:", std::nullopt, 1 + round % 3));
    if (round % 2) frontend_.wait(0.002);  // join it late
    auto stream = frontend_.submit(sampled("Name a river:", 42, 3));
    auto after = frontend_.submit(sampled("Something else:", std::nullopt, 2));
    EXPECT_EQ(texts(*stream), alone) << round;
    for (Stream* other : {before.get(), after.get()})
      for (std::string& text : texts(*other)) strangers.push_back(std::move(text));
  }
  std::ranges::sort(strangers);  // who has no seed gets another one each time
  EXPECT_EQ(std::ranges::adjacent_find(strangers), strangers.end());
}

// BL-11
TEST_F(FrontendTest, StopStringsWaitForMinTokens) {
  std::string whole = generate(greedy("abc", 60)).text;
  GenerateRequest request = greedy("abc", 60);
  request.sampling.ignore_eos = false;
  request.sampling.stop = {whole.substr(2, 1)};
  request.sampling.min_tokens = 30;
  Output out = generate(request);
  EXPECT_GE(out.tokens.size(), 30u);
}

// BL-13: EOS has no text; ignore_eos goes on; the user's stop ids work all the same.
TEST_F(FrontendTest, StopTokens) {
  GenerateRequest request = greedy("abc", 20);
  request.sampling.ignore_eos = false;
  request.sampling.logit_bias = {{kFakeEos, 100.0}};
  Output out = generate(request);
  EXPECT_EQ(out.finish, FinishReason::kStop);
  EXPECT_EQ(out.stop_token, -1);
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.tokens.size(), 1u);
  request.sampling.ignore_eos = true;
  EXPECT_EQ(generate(request).tokens.size(), 20u);
  request.sampling.stop_token_ids = {kFakeEos};
  out = generate(request);
  EXPECT_EQ(out.stop_token, kFakeEos);
  EXPECT_EQ(out.text, "");
}

TEST_F(FrontendTest, ChildrenHaveTheirOwnSeeds) {
  GenerateRequest request = greedy("abc", 30);
  request.sampling.temperature = 1;
  request.sampling.seed = 7;
  request.sampling.n = 3;
  auto stream = frontend_.submit(request);
  auto out = read(*stream);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_NE(out[0].text, out[1].text);
  EXPECT_EQ(stream->usage().completion_tokens, 90);
  EXPECT_EQ(stream->usage().prompt_tokens, 3);
  request.sampling.n = 1;
  request.sampling.seed = 8;
  EXPECT_EQ(generate(request).text, out[1].text);
  request.sampling.seed = INT64_MAX;  // seed + index wraps
  request.sampling.n = 2;
  std::string second = read(*frontend_.submit(request))[1].text;
  request.sampling.seed = INT64_MIN;
  request.sampling.n = 1;
  EXPECT_EQ(generate(request).text, second);
}

// BL-29
TEST_F(FrontendTest, DroppingAStreamAbortsAllChildren) {
  for (int i = 0; i < 20; ++i) {
    GenerateRequest request = greedy("abc", 400);
    request.sampling.temperature = 1;
    request.sampling.n = 4;
    auto stream = frontend_.submit(request);
    if (i % 2) frontend_.wait(0.005);
  }
  wait_idle();
  EXPECT_EQ(generate(greedy("abc", 5)).tokens.size(), 5u);
}

// BL-18
TEST_F(FrontendTest, ScoreOnly) {
  GenerateRequest request = greedy("hello", 0);
  EXPECT_THROW(frontend_.submit(request), ApiError);
  request.echo = true;
  request.sampling.logprobs = 1;
  auto stream = frontend_.submit(request);
  Output out = read(*stream)[0];
  EXPECT_EQ(out.text, "");
  EXPECT_EQ(out.finish, FinishReason::kLength);
  EXPECT_EQ(stream->usage().completion_tokens, 0);
  EXPECT_TRUE(stream->prompt_logprobs(0).empty());
  for (int i = 1; i < 5; ++i) {
    ASSERT_FALSE(stream->prompt_logprobs(i).empty());
    EXPECT_EQ(stream->prompt_logprobs(i)[0].id, stream->prompt()[i]);
    EXPECT_LE(stream->prompt_logprobs(i)[0].logprob, 0);
  }
}

// BL-32
TEST_F(FrontendTest, LengthLimits) {
  auto status = [&](size_t prompt, int64_t max_tokens) -> std::string {
    try {
      read(*frontend_.submit(greedy(std::string(prompt, 'x'), max_tokens)));
      return "ok";
    } catch (const ApiError& e) {
      EXPECT_NE(std::string(e.what()).find("512"), std::string::npos);
      return e.param;
    }
  };
  EXPECT_EQ(status(511, 1), "ok");
  EXPECT_EQ(status(511, 100), "ok");
  EXPECT_EQ(status(512, 1), "input_tokens");
  EXPECT_EQ(status(513, 1), "input_tokens");
  EXPECT_EQ(status(10'000'000, 1), "input_tokens");
  EXPECT_EQ(status(10, 513), "max_tokens");
}

TEST_F(FrontendTest, Truncation) {
  GenerateRequest request = greedy("0123456789", 1);
  request.truncate_prompt_tokens = 4;
  EXPECT_EQ(text_.decode(frontend_.prepare(request).prompt, false), "6789");
  request.truncate_left = false;
  EXPECT_EQ(text_.decode(frontend_.prepare(request).prompt, false), "0123");
  request.truncate_prompt_tokens = 513;
  EXPECT_THROW(frontend_.prepare(request), ApiError);
}

struct CountingObserver : RequestObserver {
  int first = 0, finished = 0;
  int64_t tokens = 0;
  std::map<FinishReason, int> reasons;
  void on_first_token(double) override { ++first; }
  void on_tokens(int64_t count, double) override { tokens += count; }
  void on_finish(const RequestReport& report) override { ++finished, ++reasons[report.reason]; }
};

TEST_F(FrontendTest, ObserverCountsEachTokenOnce) {
  CountingObserver observer;
  frontend_.set_observer(&observer);
  for (int i = 0; i < 10; ++i) generate(greedy("abc" + std::to_string(i), 10));
  GenerateRequest stopped = greedy("abc", 60);
  stopped.sampling.stop = {generate(greedy("abc", 60)).text.substr(5, 2)};
  generate(stopped);
  wait_idle();
  EXPECT_EQ(observer.first, 12);
  EXPECT_EQ(observer.reasons[FinishReason::kLength], 11);
  EXPECT_EQ(observer.reasons[FinishReason::kStop], 1);
  EXPECT_GE(observer.tokens, 10 * 9 + 59);
}

}  // namespace
}  // namespace octavo
