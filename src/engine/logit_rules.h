// What a request does to its logits before temperature, in this order: allowed ids, bad words, min_tokens,
// logit_bias, penalties (repetition over prompt and output; frequency and presence over the output).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/request.h"
#include "engine/token_counts.h"

namespace octavo {

/// `allowed`: scratch of the size of params.allowed_token_ids. `counts` is read only when params has
/// penalties.
void apply_logit_rules(const SamplingParams& params, const TokenCounts& counts,
                       std::span<const int32_t> output, std::vector<std::pair<int32_t, float>>& allowed,
                       std::span<float> logits);

inline bool has_penalties(const SamplingParams& params) {
  return params.repetition_penalty != 1.0f || params.presence_penalty != 0.0f ||
         params.frequency_penalty != 0.0f;
}

}  // namespace octavo
