// What crosses the border of the engine: token ids and numbers, never text (DESIGN.md, section 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace octavo {

enum class LogprobsMode : uint8_t { kRawLogprobs, kProcessedLogprobs, kRawLogits, kProcessedLogits };
enum class SchedulingPolicy : uint8_t { kFcfs, kPriority };
enum class FinishReason : uint8_t { kNone, kStop, kLength, kAbort, kError };

/// Sampling of one sequence. Values are validated before they get here (surface document, section 3.4).
struct SamplingParams {
  float temperature = 1.0f;  ///< below 1e-5: greedy
  float top_p = 1.0f;
  int32_t top_k = 0;  ///< 0: off
  float min_p = 0.0f;
  float repetition_penalty = 1.0f, presence_penalty = 0.0f, frequency_penalty = 0.0f;
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  std::optional<int64_t> seed;
  bool ignore_eos = false;
  std::vector<int32_t> eos_ids;         ///< of the model
  std::vector<int32_t> stop_token_ids;  ///< of the request; work under ignore_eos too
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<int32_t> allowed_token_ids;       ///< empty: all
  std::vector<std::vector<int32_t>> bad_words;  ///< token sequences
  int32_t logprobs = -1;                        ///< -1: none; k: the sampled token and the k best
  int32_t prompt_logprobs = -1;                 ///< the same for prompt tokens
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
};

struct EngineRequest {
  uint64_t id = 0;  ///< unique; chosen by the submitter
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int32_t priority = 0;    ///< smaller runs first under --scheduling-policy priority
  std::string cache_salt;  ///< separates prefix cache entries
};

struct TokenLogprob {
  int32_t id;
  float logprob;
  int32_t rank;  ///< tokens at least as likely, 1-based
};

/// Why and when a sequence ended; times are steady-clock seconds.
struct FinishInfo {
  FinishReason reason = FinishReason::kNone;
  int32_t stop_token = -1;  ///< the id that stopped it, -1 for length and for EOS
  std::string error;        ///< for kError
  double arrival = 0, scheduled = 0, first_token = 0, last_token = 0;
  int64_t cached_tokens = 0;  ///< prompt tokens found in the prefix cache
  int64_t preemptions = 0;
};

}  // namespace octavo
