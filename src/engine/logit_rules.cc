#include "engine/logit_rules.h"

#include <algorithm>
#include <limits>

namespace octavo {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// Ids are checked at the API; those of a padded or shortened vocabulary are skipped here all the same.
bool inside(int32_t id, std::span<float> logits) {
  return id >= 0 && id < static_cast<int64_t>(logits.size());
}

/// NaN and +infinity stay: the sampler must still see that the model's arithmetic failed.
void exclude(float& x) {
  if (x < std::numeric_limits<float>::infinity()) x = kExcluded;
}

void exclude(int32_t id, std::span<float> logits) {
  if (inside(id, logits)) exclude(logits[id]);
}

void keep_allowed(const std::vector<int32_t>& ids, std::vector<std::pair<int32_t, float>>& kept,
                  std::span<float> logits) {
  kept.clear();
  for (int32_t id : ids)
    if (inside(id, logits)) kept.emplace_back(id, logits[id]);
  for (float& x : logits) exclude(x);
  for (auto [id, x] : kept) logits[id] = x;
}

void exclude_bad_words(const std::vector<std::vector<int32_t>>& words, std::span<const int32_t> output,
                       std::span<float> logits) {
  for (const std::vector<int32_t>& word : words) {
    if (word.empty() || output.size() < word.size() - 1) continue;
    if (std::equal(word.begin(), word.end() - 1, output.end() - (word.size() - 1)))
      exclude(word.back(), logits);
  }
}

void penalise(const SamplingParams& params, const TokenCounts& counts, std::span<float> logits) {
  for (auto [token, outputs] : counts.entries()) {
    if (!inside(token, logits)) continue;
    float& x = logits[token];
    x = x > 0 ? x / params.repetition_penalty : x * params.repetition_penalty;
    x -= params.frequency_penalty * static_cast<float>(outputs);
    if (outputs > 0) x -= params.presence_penalty;
  }
}

}  // namespace

void apply_logit_rules(const SamplingParams& params, const TokenCounts& counts,
                       std::span<const int32_t> output, std::vector<std::pair<int32_t, float>>& allowed,
                       std::span<float> logits) {
  if (!params.allowed_token_ids.empty()) keep_allowed(params.allowed_token_ids, allowed, logits);
  exclude_bad_words(params.bad_words, output, logits);
  if (static_cast<int64_t>(output.size()) < params.min_tokens) {
    if (!params.ignore_eos)
      for (int32_t id : params.eos_ids) exclude(id, logits);
    for (int32_t id : params.stop_token_ids) exclude(id, logits);
  }
  for (auto [id, bias] : params.logit_bias)
    if (inside(id, logits)) logits[id] += bias;
  if (has_penalties(params)) penalise(params, counts, logits);
}

}  // namespace octavo
