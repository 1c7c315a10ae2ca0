#include "frontend/sampling.h"

#include <gtest/gtest.h>

#include "frontend/api_error.h"

namespace octavo {
namespace {

constexpr SamplingLimits kLimits{.vocab = 100, .max_model_len = 64, .prompt_tokens = 10};

std::string refused(const SamplingFields& fields, const SamplingLimits& limits = kLimits,
                    const SamplingDefaults& defaults = {}) {
  try {
    resolve_sampling(fields, defaults, limits);
  } catch (const ApiError& e) {
    EXPECT_EQ(e.status, 400);
    EXPECT_NE(std::string(e.what()), "");
    return e.param;
  }
  return "";
}

TEST(Sampling, RequestThenModelThenOpenAi) {
  SamplingDefaults defaults{.temperature = 0.6, .top_p = 0.9, .top_k = 20, .max_new_tokens = 30};
  SamplingFields fields;
  fields.top_p = 0.5;
  SamplingParams out = resolve_sampling(fields, defaults, kLimits);
  EXPECT_FLOAT_EQ(out.temperature, 0.6f);
  EXPECT_FLOAT_EQ(out.top_p, 0.5f);
  EXPECT_EQ(out.top_k, 20);
  EXPECT_EQ(out.max_tokens, 16);
  SamplingParams plain = resolve_sampling({}, {}, kLimits);
  EXPECT_FLOAT_EQ(plain.temperature, 1);
  EXPECT_EQ(plain.top_k, 0);
}

TEST(Sampling, ChatMayUseTheRestOfTheContext) {
  SamplingLimits chat = kLimits;
  chat.chat = true;
  EXPECT_EQ(resolve_sampling({}, {}, chat).max_tokens, 54);
  EXPECT_EQ(resolve_sampling({}, {.max_new_tokens = 30}, chat).max_tokens, 30);
  SamplingFields fields;
  fields.max_tokens = 60;  // fits max_model_len, not the rest of it: cut silently
  EXPECT_EQ(resolve_sampling(fields, {}, chat).max_tokens, 54);
}

// BL-32: limits of max_tokens.
TEST(Sampling, MaxTokens) {
  SamplingFields fields;
  for (int64_t bad : {int64_t{0}, int64_t{-1}, int64_t{65}, INT64_MAX}) {
    fields.max_tokens = bad;
    EXPECT_EQ(refused(fields), "max_tokens") << bad;
  }
  fields.max_tokens = 0;
  SamplingLimits echo = kLimits;
  echo.echo = true;
  EXPECT_EQ(resolve_sampling(fields, {}, echo).max_tokens, 0);
}

TEST(Sampling, RangesAreChecked) {
  auto with = [](auto set) {
    SamplingFields fields;
    set(fields);
    return refused(fields);
  };
  EXPECT_EQ(with([](auto& f) { f.temperature = 2.1; }), "temperature");
  EXPECT_EQ(with([](auto& f) { f.temperature = -0.1; }), "temperature");
  EXPECT_EQ(with([](auto& f) { f.top_p = 0; }), "top_p");
  EXPECT_EQ(with([](auto& f) { f.top_p = 1.1; }), "top_p");
  EXPECT_EQ(with([](auto& f) { f.top_k = -2; }), "top_k");
  EXPECT_EQ(with([](auto& f) { f.min_p = 1.5; }), "min_p");
  EXPECT_EQ(with([](auto& f) { f.presence_penalty = 2.5; }), "presence_penalty");
  EXPECT_EQ(with([](auto& f) { f.frequency_penalty = -2.5; }), "frequency_penalty");
  EXPECT_EQ(with([](auto& f) { f.repetition_penalty = 0; }), "repetition_penalty");
  EXPECT_EQ(with([](auto& f) { f.repetition_penalty = 1e-300; }), "repetition_penalty");  // 0 as a float
  EXPECT_EQ(with([](auto& f) { f.n = 0; }), "n");
  EXPECT_EQ(with([](auto& f) { f.n = 2, f.temperature = 0; }), "n");
  EXPECT_EQ(with([](auto& f) { f.stop = {"a", "b", "c", "d", "e"}; }), "stop");
  EXPECT_EQ(with([](auto& f) { f.stop = {""}; }), "stop");
  EXPECT_EQ(with([](auto& f) { f.stop_token_ids = {100}; }), "stop_token_ids");
  EXPECT_EQ(with([](auto& f) { f.logit_bias = {{-1, 1.0}}; }), "logit_bias");
  EXPECT_EQ(with([](auto& f) { f.allowed_token_ids.emplace(); }), "allowed_token_ids");
  EXPECT_EQ(with([](auto& f) { f.logprobs = 21; }), "logprobs");
  EXPECT_EQ(with([](auto& f) { f.logprobs = -1; }), "logprobs");
  EXPECT_EQ(with([](auto& f) { f.prompt_logprobs = -2; }), "prompt_logprobs");
  EXPECT_EQ(with([](auto& f) { f.min_tokens = 17; }), "min_tokens");
  EXPECT_EQ(with([](auto& f) { f.max_tokens = 5, f.min_tokens = 6; }), "min_tokens");
}

// --max-logprobs -1: the whole vocabulary of a large model, for as many tokens as memory is to be had for.
TEST(Sampling, LogprobsOfTheWholeVocabularyAreBounded) {
  SamplingLimits limits{.vocab = 151936, .max_model_len = 131072, .max_logprobs = -1, .prompt_tokens = 1000};
  auto asked = [&](auto set) {
    SamplingFields fields;
    set(fields);
    try {
      return str(resolve_sampling(fields, {}, limits).logprobs);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status, 400);
      EXPECT_NE(std::string(e.what()).find("GiB"), std::string::npos) << e.what();
      return e.param;
    }
  };
  EXPECT_EQ(asked([](auto& f) { f.logprobs = -1; }), "151936");  // 16 tokens
  EXPECT_EQ(asked([](auto& f) { f.logprobs = -1, f.max_tokens = 2000; }), "151936");
  EXPECT_EQ(asked([](auto& f) { f.logprobs = -1, f.max_tokens = 3000; }), "logprobs");
  EXPECT_EQ(asked([](auto& f) { f.logprobs = -1, f.max_tokens = 2000, f.n = 2; }), "logprobs");
  EXPECT_EQ(asked([](auto& f) { f.logprobs = 20, f.max_tokens = 131072; }), "20");
  limits.prompt_tokens = 3000;
  EXPECT_EQ(asked([](auto& f) { f.prompt_logprobs = -1; }), "prompt_logprobs");
  limits.echo = true;  // the prompt's as well
  EXPECT_EQ(asked([](auto& f) { f.logprobs = -1, f.max_tokens = 0; }), "logprobs");
}

TEST(Sampling, ListsOfIdsHoldEachOnce) {
  SamplingFields fields;
  fields.allowed_token_ids = std::vector<int64_t>(1000, 7);
  fields.stop_token_ids = {9, 3, 9, 3};
  SamplingParams out = resolve_sampling(fields, {}, kLimits);
  EXPECT_EQ(out.allowed_token_ids, std::vector<int32_t>{7});
  EXPECT_EQ(out.stop_token_ids, (std::vector<int32_t>{3, 9}));
}

TEST(Sampling, SmallDetails) {
  SamplingFields fields;
  fields.temperature = 0.001;
  EXPECT_FLOAT_EQ(resolve_sampling(fields, {}, kLimits).temperature, 0.01f);
  fields.temperature = 0;
  fields.top_p = 0.5;
  fields.top_k = 5;
  SamplingParams greedy = resolve_sampling(fields, {}, kLimits);
  EXPECT_EQ(greedy.top_p, 1);
  EXPECT_EQ(greedy.top_k, 0);
  fields.seed = -1;
  EXPECT_FALSE(resolve_sampling(fields, {}, kLimits).seed.has_value());
  fields.logit_bias = {{3, 1000.0}};
  EXPECT_FLOAT_EQ(resolve_sampling(fields, {}, kLimits).logit_bias[0].second, 100);
}

}  // namespace
}  // namespace octavo
