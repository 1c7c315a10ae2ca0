// From a row of logits to a token (surface document, section 5). One row depends on its sequence alone: on
// its parameters, its history and a counter-based random number of (seed, output index); never on the rows
// beside it, on the worker or on preemption.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/row_select.h"
#include "engine/token_counts.h"

namespace octavo {

/// What sampling remembers of one sequence; all memory is taken by the constructor.
class SamplerState {
 public:
  SamplerState(const SamplingParams& params, std::span<const int32_t> prompt, int64_t max_len, int64_t vocab,
               uint64_t seed);
  /// A token was generated.
  void observe(int32_t token) {
    if (penalties_) counts_.add(token, true);
  }

 private:
  friend class Sampler;
  const uint64_t seed_;
  const bool penalties_;
  TokenCounts counts_;                              // with penalties only
  std::vector<std::pair<int32_t, float>> allowed_;  // scratch of apply_logit_rules

 public:
  std::vector<TokenLogprob> logprobs;  ///< [logprobs + 1] of the last sample; empty: none wanted
};

enum class SampleError : uint8_t {
  kNone,
  kNotFinite,  ///< NaN or +infinity among the logits: the model's arithmetic failed
  kNoToken,    ///< the request's own rules leave no token
};

struct SampleResult {
  int32_t token = -1;
  SampleError error = SampleError::kNone;
};

class Sampler {
 public:
  /// With scratch for `workers` threads.
  Sampler(const kernels::KernelTable& kernels, int64_t vocab, int workers);

  /// `logits` [vocab] are overwritten; `output`: tokens generated so far. Fills state.logprobs: the token,
  /// then the best.
  SampleResult sample(const SamplingParams& params, SamplerState& state, std::span<const int32_t> output,
                      float* logits, int worker);
  /// Log-probability of a known token and of the best ones into `out` [k + 1], without rules or temperature.
  SampleError score(LogprobsMode mode, int32_t token, const float* logits, std::span<TokenLogprob> out,
                    int worker);
  /// The first half of sample(): `logits` become those that it draws from, -infinity where excluded.
  SampleError process(const SamplingParams& params, SamplerState& state, std::span<const int32_t> output,
                      float* logits, int worker);

 private:
  struct Worker {
    RowSelect select;
    std::vector<float> raw;  // [vocab] copy of a row whose raw logprobs are wanted
  };
  struct Choice;

  SampleError prepare(const SamplingParams& params, SamplerState& state, std::span<const int32_t> output,
                      float* logits, Worker& w) const;
  Choice choose(const SamplingParams& params, float* logits, Worker& w) const;
  int32_t draw(const Choice& choice, double uniform, const Worker& w) const;
  void exclude_others(const Choice& choice, float* logits) const;
  SampleError best(LogprobsMode mode, const float* row, std::span<TokenLogprob> out, Worker& w,
                   double& offset) const;
  TokenLogprob describe(int32_t token, const float* row, double offset) const;

  const kernels::KernelTable& kernels_;
  const int64_t vocab_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// In [0, 1): a function of its arguments alone.
double counter_uniform(uint64_t seed, uint64_t counter);

}  // namespace octavo
