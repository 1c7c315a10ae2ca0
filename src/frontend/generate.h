// What goes into the frontend and what comes out of it: a request in text (or ids), its output as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "frontend/sampling.h"

namespace octavo {

/// A conversation for the model's chat template.
struct ChatPrompt {
  nlohmann::ordered_json messages;          ///< checked by parse: array of objects with role and content
  nlohmann::ordered_json tools, documents;  ///< null: none
  nlohmann::ordered_json template_kwargs = nlohmann::ordered_json::object();
  std::string chat_template{};  ///< of the request, empty: the model's
  bool add_generation_prompt = true, continue_final_message = false;
};

using PromptInput = std::variant<std::string, std::vector<int32_t>, ChatPrompt>;

struct GenerateRequest {
  PromptInput prompt{};
  bool add_special_tokens = true;  ///< BOS and the like; false for chat, whose template writes them
  std::optional<int64_t> truncate_prompt_tokens{};  ///< -1: to max_model_len - 1
  bool truncate_left = true;                        ///< keep the end of the prompt
  SamplingFields sampling{};
  bool echo = false;  ///< the reader will show the prompt too; allows max_tokens 0
  int64_t priority = 0;
  std::string cache_salt{};
  std::string request_id{};  ///< for the log
};

/// A request that can no longer be refused but for want of room: ids and parameters, all checked.
struct Prepared {
  std::vector<int32_t> prompt;
  SamplingParams sampling;  ///< of child 0
  SamplingFields fields;
  int32_t priority = 0;
  std::string cache_salt, request_id;
};

/// The log-probabilities of one position: the token itself first, then the best ones; views into the stream.
using TokenLogprobs = std::span<const TokenLogprob>;

/// New output of one of the n children of a request.
struct TextDelta {
  int index = 0;
  std::string text;  ///< valid UTF-8
  std::vector<int32_t> tokens;
  std::vector<TokenLogprobs> logprobs;        ///< one per token if they were asked for
  FinishReason finish = FinishReason::kNone;  ///< not kNone exactly once per child, with its last delta
  std::string stop_string;                    ///< the stop string that ended it
  int32_t stop_token = -1;                    ///< the stop token id that ended it; -1 for EOS and the rest
  std::string error;                          ///< for kError
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  Usage& operator+=(const Usage& other) {
    prompt_tokens += other.prompt_tokens;
    completion_tokens += other.completion_tokens;
    cached_tokens += other.cached_tokens;
    return *this;
  }
};

/// "stop", "length", "abort", "error" as the API writes them.
const char* name(FinishReason reason);

}  // namespace octavo
