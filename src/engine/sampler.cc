#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/logit_rules.h"

namespace octavo {
namespace {

constexpr float kGreedyBelow = 1e-5f;  // vLLM's; also keeps 1 / temperature harmless (BL-39)

uint64_t mix(uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool is_raw(LogprobsMode mode) {
  return mode == LogprobsMode::kRawLogprobs || mode == LogprobsMode::kRawLogits;
}

double mass(std::span<const Candidate> candidates, float max) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += std::exp(c.x - max);
  return sum;
}

/// The least logit whose probability is at least min_p times that of `max`: log rounds, so the last bits are
/// settled by exp.
float min_p_threshold(float max, double min_p) {
  float x = max + static_cast<float>(std::log(min_p));
  while (x < max && std::exp(static_cast<double>(x) - max) < min_p) x = std::nextafter(x, max);
  return x;
}

/// The fewest best candidates whose mass reaches `wanted`, best first. Of equal ones the higher id counts as
/// better, as in a stable ascending sort that drops from below.
std::span<Candidate> nucleus(std::span<Candidate> candidates, float max, double wanted) {
  auto better = [](const Candidate& a, const Candidate& b) {
    return a.x > b.x || (a.x == b.x && a.id > b.id);
  };
  size_t count = std::min<size_t>(64, candidates.size());
  while (count < candidates.size()) {  // mostly a few tokens hold the mass: sort no more than needed
    std::nth_element(candidates.begin(), candidates.begin() + count, candidates.end(), better);
    if (mass(candidates.first(count), max) >= wanted) break;
    count = std::min(4 * count, candidates.size());
  }
  candidates = candidates.first(count);
  std::sort(candidates.begin(), candidates.end(), better);
  double sum = 0;
  size_t kept = 0;
  while (kept < count && (kept == 0 || sum < wanted)) sum += std::exp(candidates[kept++].x - max);
  return candidates.first(kept);
}

}  // namespace

double counter_uniform(uint64_t seed, uint64_t counter) {
  uint64_t bits =
      mix(mix(seed + 0x9e3779b97f4a7c15) ^ mix(counter * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

SamplerState::SamplerState(const SamplingParams& params, std::span<const int32_t> prompt, int64_t max_len,
                           int64_t vocab, uint64_t seed)
    : seed_(seed), penalties_(has_penalties(params)) {
  if (penalties_) {
    counts_ = TokenCounts(std::min(max_len, vocab));
    for (int32_t token : prompt) counts_.add(token, false);
  }
  allowed_.reserve(params.allowed_token_ids.size());
  if (params.logprobs >= 0) logprobs.resize(std::min<int64_t>(params.logprobs, vocab) + 1);
}

Sampler::Sampler(const kernels::KernelTable& kernels, int64_t vocab, int workers)
    : kernels_(kernels), vocab_(vocab) {
  for (int i = 0; i < workers; ++i)
    workers_.push_back(
        std::make_unique<Worker>(Worker{RowSelect(kernels.sampling, vocab), std::vector<float>(vocab)}));
}

/// What is drawn from: one token, some, or the whole row.
struct Sampler::Choice {
  enum Kind { kOne, kSome, kAll } kind;
  std::span<const Candidate> candidates{};  // kSome
  double mass = 0;                          // sum of exp(x - max) over what is drawn from
};

SampleError Sampler::prepare(const SamplingParams& params, SamplerState& state,
                             std::span<const int32_t> output, float* logits, Worker& w) const {
  apply_logit_rules(params, state.counts_, output, state.allowed_, {logits, static_cast<size_t>(vocab_)});
  if (!w.select.scan(logits) || w.select.max() == std::numeric_limits<float>::infinity())
    return SampleError::kNotFinite;
  return std::isinf(w.select.max()) ? SampleError::kNoToken : SampleError::kNone;
}

// min_p and top_k are both thresholds on the logit (ties with the k-th stay), so the stricter holds. For
// top_p alone, tokens of probability below (1 - p) / vocab have less than 1 - p together: none of them is in
// the nucleus.
Sampler::Choice Sampler::choose(const SamplingParams& params, float* logits, Worker& w) const {
  RowSelect& select = w.select;
  if (params.temperature < kGreedyBelow) return {Choice::kOne};
  if (params.temperature != 1.0f) {
    float factor = 1.0f / params.temperature;
    kernels_.elementwise.scale(logits, factor, vocab_);
    select.scaled();
    if (!std::isfinite(select.max())) return {Choice::kOne};
  }
  const bool min_p = params.min_p > 0, top_k = params.top_k > 0 && params.top_k < vocab_,
             top_p = params.top_p < 1;
  if (!min_p && !top_k && !top_p) return {Choice::kAll, {}, select.sum_exp()};
  float threshold = std::numeric_limits<float>::lowest();
  double total = 0;
  if (min_p) threshold = min_p_threshold(select.max(), params.min_p);
  if (top_k) threshold = std::max(threshold, select.kth_largest(params.top_k));
  if (!min_p && !top_k) {
    total = select.sum_exp();
    double least = std::log(total * (1.0 - params.top_p) / static_cast<double>(vocab_));
    threshold = select.max() + static_cast<float>(least) - 1e-3f;  // the margin covers float rounding
  }
  std::span<Candidate> candidates = select.gather(threshold);
  if (top_p) {
    if (min_p || top_k) total = mass(candidates, select.max());
    candidates = nucleus(candidates, select.max(), total * params.top_p);
  }
  return {Choice::kSome, candidates, mass(candidates, select.max())};
}

int32_t Sampler::draw(const Choice& choice, double uniform, const Worker& w) const {
  if (choice.kind == Choice::kOne) return static_cast<int32_t>(w.select.argmax());
  double left = uniform * choice.mass;
  if (choice.kind == Choice::kAll) return static_cast<int32_t>(w.select.draw(left));
  for (const Candidate& c : choice.candidates)
    if ((left -= std::exp(c.x - w.select.max())) < 0) return c.id;
  return static_cast<int32_t>(w.select.argmax());  // rounding left a rest
}

void Sampler::exclude_others(const Choice& choice, float* logits) const {
  if (choice.kind != Choice::kSome) return;
  std::fill(logits, logits + vocab_, -std::numeric_limits<float>::infinity());
  for (const Candidate& c : choice.candidates) logits[c.id] = c.x;
}

// The best entries of `row` into out[1...]; `offset` is what turns its logits into the mode's values.
SampleError Sampler::best(LogprobsMode mode, const float* row, std::span<TokenLogprob> out, Worker& w,
                          double& offset) const {
  if (!w.select.scan(row) || !std::isfinite(w.select.max())) return SampleError::kNotFinite;
  bool logits = mode == LogprobsMode::kRawLogits || mode == LogprobsMode::kProcessedLogits;
  offset = logits ? 0 : w.select.max() + std::log(w.select.sum_exp());
  int32_t rank = 0;
  for (const Candidate& c : w.select.top(static_cast<int64_t>(out.size()) - 1)) {
    out[rank + 1] = {c.id, static_cast<float>(c.x - offset), rank + 1};
    ++rank;
  }
  return SampleError::kNone;
}

TokenLogprob Sampler::describe(int32_t token, const float* row, double offset) const {
  int64_t rank = kernels_.sampling.count_above(row, row[token], vocab_);
  return {token, static_cast<float>(row[token] - offset), static_cast<int32_t>(rank)};
}

SampleResult Sampler::sample(const SamplingParams& params, SamplerState& state,
                             std::span<const int32_t> output, float* logits, int worker) {
  Worker& w = *workers_[worker];
  const bool wanted = !state.logprobs.empty(), raw = is_raw(params.logprobs_mode);
  double offset = 0;
  if (wanted && raw) {
    SampleError error = best(params.logprobs_mode, logits, state.logprobs, w, offset);
    if (error != SampleError::kNone) return {-1, error};
    std::copy(logits, logits + vocab_, w.raw.begin());
  }
  if (SampleError error = prepare(params, state, output, logits, w); error != SampleError::kNone)
    return {-1, error};
  Choice choice = choose(params, logits, w);
  int32_t token = draw(choice, counter_uniform(state.seed_, output.size()), w);
  if (wanted && !raw) {
    exclude_others(choice, logits);
    best(params.logprobs_mode, logits, state.logprobs, w, offset);
  }
  if (wanted) state.logprobs[0] = describe(token, raw ? w.raw.data() : logits, offset);
  return {token};
}

SampleError Sampler::score(LogprobsMode mode, int32_t token, const float* logits, std::span<TokenLogprob> out,
                           int worker) {
  double offset = 0;
  SampleError error = best(mode, logits, out, *workers_[worker], offset);
  if (error == SampleError::kNone) out[0] = describe(token, logits, offset);
  return error;
}

SampleError Sampler::process(const SamplingParams& params, SamplerState& state,
                             std::span<const int32_t> output, float* logits, int worker) {
  Worker& w = *workers_[worker];
  SampleError error = prepare(params, state, output, logits, w);
  if (error == SampleError::kNone) exclude_others(choose(params, logits, w), logits);
  return error;
}

}  // namespace octavo
