#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace octavo {
namespace {

using Json = nlohmann::json;
constexpr float kInf = std::numeric_limits<float>::infinity();

SamplingParams params_of(const Json& j) {
  SamplingParams p;
  p.temperature = j.value("temperature", 1.0f);
  p.top_k = std::max(0, j.value("top_k", 0));
  p.top_p = j.value("top_p", 1.0f);
  p.min_p = j.value("min_p", 0.0f);
  p.repetition_penalty = j.value("repetition_penalty", 1.0f);
  p.frequency_penalty = j.value("frequency_penalty", 0.0f);
  p.presence_penalty = j.value("presence_penalty", 0.0f);
  p.min_tokens = j.value("min_tokens", 0);
  p.stop_token_ids = j.value("stop_token_ids", std::vector<int32_t>());
  p.allowed_token_ids = j.value("allowed_token_ids", std::vector<int32_t>());
  p.bad_words = j.value("bad_words_token_ids", std::vector<std::vector<int32_t>>());
  if (j.contains("logit_bias"))
    for (auto& [id, bias] : j["logit_bias"].items())
      p.logit_bias.emplace_back(std::stoi(id), bias.get<float>());
  return p;
}

struct Row {
  Row(const SamplingParams& p, std::vector<float> x, std::vector<int32_t> prompt = {0},
      std::vector<int32_t> out = {}, uint64_t seed = 0)
      : params(p),
        logits(std::move(x)),
        output(std::move(out)),
        state(p, prompt, 1024, static_cast<int64_t>(logits.size()), seed),
        sampler(kernels::select(), static_cast<int64_t>(logits.size()), 1) {
    for (int32_t t : output) state.observe(t);
  }
  std::vector<float> processed() {
    std::vector<float> x = logits;
    EXPECT_EQ(sampler.process(params, state, output, x.data(), 0), SampleError::kNone);
    return x;
  }
  SampleResult sample() {
    std::vector<float> x = logits;
    return sampler.sample(params, state, output, x.data(), 0);
  }
  int32_t draw(int step) {
    output.assign(step, 0);
    return sample().token;
  }

  SamplingParams params;
  std::vector<float> logits;
  std::vector<int32_t> output;
  SamplerState state;
  Sampler sampler;
};

std::vector<double> softmax(const std::vector<float>& x) {
  double max = *std::max_element(x.begin(), x.end()), sum = 0;
  std::vector<double> p;
  for (float v : x) p.push_back(std::exp(v - max));
  for (double v : p) sum += v;
  for (double& v : p) v /= sum;
  return p;
}

std::vector<float> random_row(int64_t vocab, unsigned seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(vocab);
  for (float& x : row) x = normal(random);
  return row;
}

TEST(SamplerGolden, EveryCase) {
  std::ifstream file(OCTAVO_SHARED_DIR "/golden/sampling/golden.json");
  Json golden = Json::parse(file);
  ASSERT_EQ(golden["cases"].size(), 74u);
  for (const Json& c : golden["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>() + " " + c["params"].dump());
    Row row(params_of(c["params"]), c["logits"], c["prompt"], c["output"]);
    std::vector<float> x = row.processed();
    for (size_t i = 0; i < x.size(); ++i) {
      const Json& expected = c["expected_logits"][i];
      if (expected.is_null()) {
        EXPECT_EQ(x[i], -kInf) << i;
      } else {
        EXPECT_NEAR(x[i], expected.get<double>(), 1e-5 * (1 + std::abs(x[i]))) << i;
      }
    }
    EXPECT_EQ(std::max_element(x.begin(), x.end()) - x.begin(), c["argmax"].get<int64_t>());
    if (!c["expected_probs"].is_null()) {
      std::vector<double> p = softmax(x);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(p[i], c["expected_probs"][i].get<double>(), 1e-5) << i;
    }
    row.params.logprobs = 24;
    row.state.logprobs.resize(25);
    SampleResult result = row.sample();
    ASSERT_EQ(result.error, SampleError::kNone);
    if (c["expected_probs"].is_null()) {
      EXPECT_EQ(result.token, c["argmax"].get<int32_t>());
    }
    EXPECT_EQ(row.state.logprobs[0].id, result.token);
    for (const TokenLogprob& l : row.state.logprobs)
      EXPECT_NEAR(l.logprob, c["raw_logprobs"][l.id].get<double>(), 1e-4);
  }
}

/// Draws follow the distribution: chi-squared against expected_probs.
TEST(SamplerGolden, DrawsFollowTheProbabilities) {
  std::ifstream file(OCTAVO_SHARED_DIR "/golden/sampling/golden.json");
  constexpr int kDraws = 4000;
  const Json golden = Json::parse(file);
  for (const Json& c : golden["cases"]) {
    if (c["expected_probs"].is_null() || c["params"].contains("min_tokens") ||
        c["params"].contains("bad_words_token_ids"))
      continue;  // those depend on the output, whose length counts the draws here
    SCOPED_TRACE(c["name"].get<std::string>() + " " + c["params"].dump());
    Row row(params_of(c["params"]), c["logits"], c["prompt"], c["output"], 7);
    std::vector<int> counts(row.logits.size());
    for (int i = 0; i < kDraws; ++i) ++counts[row.draw(i)];
    double chi2 = 0;
    int cells = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      double expected = c["expected_probs"][i].get<double>() * kDraws;
      if (expected == 0) {
        EXPECT_EQ(counts[i], 0) << i;
      }
      if (expected < 5) continue;
      chi2 += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++cells;
    }
    EXPECT_LT(chi2, cells + 5 * std::sqrt(2.0 * cells) + 5);
  }
}

TEST(RowSelect, AgreesWithSorting) {
  for (int64_t vocab : {1, 24, 256, 257, 5000, 49152}) {
    std::vector<float> row = random_row(vocab, static_cast<unsigned>(vocab));
    for (size_t i = 0; i + 3 < row.size(); i += 3) row[i] = std::round(row[i]);  // ties
    RowSelect select(kernels::select().sampling, vocab);
    ASSERT_TRUE(select.scan(row.data()));
    std::vector<Candidate> sorted;
    for (int64_t i = 0; i < vocab; ++i) sorted.push_back({static_cast<int32_t>(i), row[i]});
    std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) { return a.x > b.x; });
    EXPECT_EQ(select.argmax(), sorted[0].id);
    for (int64_t k : {1, 2, 5, 20, 100, 1000, 40000}) {
      if (k > vocab) continue;
      EXPECT_EQ(select.kth_largest(k), sorted[k - 1].x) << vocab << " " << k;
      auto top = select.top(k);
      ASSERT_EQ(static_cast<int64_t>(top.size()), k);
      for (int64_t i = 0; i < k; ++i) ASSERT_EQ(top[i].id, sorted[i].id) << vocab << " " << k << " " << i;
    }
    EXPECT_EQ(select.kth_largest(vocab + 1), -kInf);
  }
}

/// Against the definition, by full sort, on rows of several shapes.
TEST(Sampler, NucleusOfLargeRows) {
  for (float spread : {0.0f, 0.3f, 1.0f, 3.0f, 8.0f}) {
    for (float p : {0.1f, 0.5f, 0.9f, 0.99f}) {
      SamplingParams params;
      params.top_p = p;
      Row row(params, random_row(20000, 5, spread));
      std::vector<float> x = row.processed();
      std::vector<double> probs = softmax(row.logits);
      double kept = 0, least_kept = 1, most_dropped = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] > -kInf) {
          kept += probs[i];
          least_kept = std::min(least_kept, probs[i]);
        } else {
          most_dropped = std::max(most_dropped, probs[i]);
        }
      }
      EXPECT_GE(kept, p - 1e-5);
      EXPECT_LE(kept - least_kept, p + 1e-5);
      EXPECT_GE(least_kept, most_dropped);
    }
  }
}

TEST(Sampler, GreedyTakesTheFirstMaximum) {
  SamplingParams params;
  params.temperature = 0;
  std::vector<float> x(1000, 1.0f);
  x[700] = x[300] = 2;
  EXPECT_EQ(Row(params, x).sample().token, 300);
}

TEST(Sampler, NotFiniteIsAnError) {  // BL-42
  for (float temperature : {0.0f, 1.0f}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      for (size_t at : {0u, 511u, 999u}) {
        SamplingParams params;
        params.temperature = temperature;
        params.top_k = 5;
        std::vector<float> x = random_row(1000, 1);
        x[at] = bad;
        SampleResult result = Row(params, x).sample();
        EXPECT_EQ(result.error, SampleError::kNotFinite);
        EXPECT_EQ(result.token, -1);
      }
    }
  }
}

// BL-42: a rule that excludes the token with the bad logit does not hide that the arithmetic failed.
TEST(Sampler, RulesDoNotHideNotFinite) {
  SamplingParams allowed, bad_word, minimum, bias;
  allowed.allowed_token_ids = {3, 4};
  bad_word.bad_words = {{700}};
  minimum.min_tokens = 5;
  minimum.eos_ids = {700};
  bias.logit_bias = {{700, -100.0f}};
  for (const SamplingParams& params : {allowed, bad_word, minimum, bias}) {
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInf}) {
      std::vector<float> x = random_row(1000, 1);
      x[700] = bad;
      EXPECT_EQ(Row(params, x).sample().error, SampleError::kNotFinite);
      x[700] = -kInf;  // excluded by the model: nothing is wrong with that
      EXPECT_EQ(Row(params, x).sample().error, SampleError::kNone);
    }
  }
}

TEST(Sampler, RulesThatLeaveNothing) {
  SamplingParams params;
  params.allowed_token_ids = {3};
  params.bad_words = {{3}};
  EXPECT_EQ(Row(params, random_row(100, 1)).sample().error, SampleError::kNoToken);
}

TEST(Sampler, TinyTemperatureIsGreedy) {  // BL-39
  std::vector<float> x = random_row(1000, 3);
  auto best = static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
  for (float t : {1e-3f, 1e-4f, 1.1e-5f, 1e-6f, 1e-12f, 1e-45f, 0.0f})
    for (float top_p : {1.0f, 1e-8f, 0.9f})
      for (float min_p : {0.0f, 1.0f}) {
        SamplingParams params;
        params.temperature = t;
        params.top_p = top_p;
        params.min_p = min_p;
        for (uint64_t seed = 0; seed < 20; ++seed)
          EXPECT_EQ(Row(params, x, {0}, {}, seed).sample().token, best);
      }
  SamplingParams params;  // an overflow of the scaled logits is no reason to fail either
  params.temperature = 2e-5f;
  x[17] = 3e36f;
  EXPECT_EQ(Row(params, x).sample().token, 17);
}

TEST(Sampler, SeedAndStepDecide) {
  std::vector<float> x = random_row(5000, 9, 0.5f);
  SamplingParams params;
  Row a(params, x, {0}, {}, 42), b(params, x, {0}, {}, 42), other(params, x, {0}, {}, 43);
  int equal = 0;
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(a.draw(step), b.draw(step));
    equal += a.draw(step) == other.draw(step);
  }
  EXPECT_LT(equal, 5);
}

TEST(Sampler, ProcessedLogprobs) {
  SamplingParams params;
  params.top_k = 2;
  params.temperature = 0.5f;
  params.logprobs = 3;
  params.logprobs_mode = LogprobsMode::kProcessedLogprobs;
  Row row(params, {0, 1, 2, 3});
  SampleResult result = row.sample();
  auto& l = row.state.logprobs;
  ASSERT_EQ(l.size(), 4u);
  EXPECT_EQ(l[0].id, result.token);
  EXPECT_EQ(l[1].id, 3);
  EXPECT_NEAR(l[1].logprob, -std::log1p(std::exp(-2.0)), 1e-5);
  EXPECT_NEAR(l[2].logprob, -2 - std::log1p(std::exp(-2.0)), 1e-5);
  EXPECT_EQ(l[3].logprob, -kInf);
  EXPECT_EQ(l[0].rank, result.token == 3 ? 1 : 2);
}

TEST(Sampler, ScoreRanksAKnownToken) {
  Sampler sampler(kernels::select(), 5, 1);
  std::vector<float> x = {1, 5, 3, 4, 2};
  std::vector<TokenLogprob> out(3);
  ASSERT_EQ(sampler.score(LogprobsMode::kRawLogits, 2, x.data(), out, 0), SampleError::kNone);
  EXPECT_EQ(out[0].id, 2);
  EXPECT_EQ(out[0].rank, 3);
  EXPECT_EQ(out[0].logprob, 3);
  EXPECT_EQ(out[1].id, 1);
  EXPECT_EQ(out[2].id, 3);
}

TEST(Sampler, MinTokensExcludesEosUnlessIgnored) {
  SamplingParams params;
  params.temperature = 0;
  params.min_tokens = 2;
  params.eos_ids = {3};
  std::vector<float> x = {0, 1, 2, 3};
  EXPECT_EQ(Row(params, x, {0}, {1}).sample().token, 2);
  EXPECT_EQ(Row(params, x, {0}, {1, 1}).sample().token, 3);
  params.ignore_eos = true;
  EXPECT_EQ(Row(params, x, {0}, {1}).sample().token, 3);
}

}  // namespace
}  // namespace octavo
