// Log-probabilities as the two APIs write them.
#pragma once

#include "frontend/text.h"
#include "server/api/generation.h"

namespace octavo {

/// -inf and NaN have no place in JSON: vLLM's floor.
double finite_logprob(float value);
/// A token for people: its text with invalid UTF-8 replaced, or "token_id:N".
std::string token_text(const Text& text, int32_t id, bool as_id);

/// The logprobs object of a completion choice, filled token by token.
class CompletionLogprobs {
 public:
  CompletionLogprobs(const Text& text, int64_t top, bool token_ids_as_text)
      : text_(text), top_(top), as_id_(token_ids_as_text) {}
  /// Empty `entries` (the first token of a prompt) gives nulls.
  void add(int32_t token, TokenLogprobs entries);
  /// {text_offset, token_logprobs, tokens, top_logprobs} of what was added since the last call.
  Json take();

 private:
  const Text& text_;
  const int64_t top_;
  const bool as_id_;
  int64_t offset_ = 0;  // characters before the next token
  Json offsets_ = Json::array(), values_ = Json::array(), tokens_ = Json::array(), tops_ = Json::array();
};

/// One entry of a chat choice's logprobs.content: exactly `top` alternatives.
Json chat_logprob(const Text& text, TokenLogprobs entries, int64_t top, bool as_id);

/// vLLM's prompt_logprobs: [null, {"id": {logprob, rank, decoded_token}}, ...], or null if not asked for.
Json prompt_logprobs_json(const Text& text, const Stream& stream);

}  // namespace octavo
