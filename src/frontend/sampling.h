// From what a request says about sampling to the engine's SamplingParams: checks of values and where defaults
// come from (surface document, sections 3.4 and 3.5).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace octavo {

/// As the request has it; an absent value means: the model's default, or else OpenAI's.
struct SamplingFields {
  std::optional<double> temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k, max_tokens, min_tokens, seed;
  int64_t n = 1;
  bool ignore_eos = false;
  bool include_stop_str_in_output = false, skip_special_tokens = true;
  std::vector<std::string> stop;
  std::vector<int64_t> stop_token_ids;
  std::vector<std::pair<int64_t, double>> logit_bias;
  std::optional<std::vector<int64_t>> allowed_token_ids;
  std::vector<std::string> bad_words;
  std::optional<int64_t> logprobs, prompt_logprobs;
};

/// The model's generation_config.json, after --generation-config and --override-generation-config.
struct SamplingDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
};

/// What the checks need to know of the server and of this request's prompt.
struct SamplingLimits {
  int64_t vocab = 0;
  int64_t max_model_len = 0;
  int64_t max_logprobs = 20;  ///< -1: no cap
  int64_t prompt_tokens = 0;
  bool chat = false;  ///< max_tokens defaults to the rest of the context instead of 16
  bool echo = false;  ///< allows max_tokens 0; logprobs are the prompt's too
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
};

/// Throws ApiError 400 naming the field. The prompt already fits the context. max_tokens may be 0 (echo
/// only). bad_words and eos_ids are left to the caller, who has the tokenizer.
SamplingParams resolve_sampling(const SamplingFields& fields, const SamplingDefaults& defaults,
                                const SamplingLimits& limits);

inline constexpr int64_t kMaxSequences = 16384;                ///< VLLM_MAX_N_SEQUENCES
inline constexpr size_t kMaxStopStrings = 4;                   ///< VLLM_MAX_STOP_STRINGS
inline constexpr int64_t kMaxLogprobBytes = int64_t{4} << 30;  ///< of one request, if max_logprobs allows it

}  // namespace octavo
