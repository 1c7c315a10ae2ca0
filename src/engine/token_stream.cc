#include "engine/token_stream.h"

#include <utility>

#include "base/error.h"

namespace octavo {

TokenStream::TokenStream(uint64_t id, int64_t max_tokens, int top, int64_t prompt_tokens, int prompt_top)
    : id_(id),
      top_(top),
      prompt_top_(prompt_top),
      prompt_logprobs_(std::make_unique_for_overwrite<TokenLogprob[]>(prompt_tokens * prompt_top)) {
  tokens_.reserve(max_tokens);
  logprobs_.reserve(max_tokens * top);
}

void TokenStream::append(int32_t token, std::span<const TokenLogprob> logprobs) {
  OCTAVO_CHECK(tokens_.size() < tokens_.capacity() && static_cast<int>(logprobs.size()) == top_);
  tokens_.push_back(token);
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
}

void TokenStream::publish() {
  state_.store(2 * static_cast<int64_t>(tokens_.size()), std::memory_order_release);
}

std::span<TokenLogprob> TokenStream::prompt_logprobs_slot(int64_t position) {
  return {prompt_logprobs_.get() + position * prompt_top_, static_cast<size_t>(prompt_top_)};
}

void TokenStream::finish(FinishInfo info) {
  OCTAVO_CHECK(!finished());
  info_ = std::move(info);
  state_.store(2 * static_cast<int64_t>(tokens_.size()) + 1, std::memory_order_release);
}

std::span<const TokenLogprob> TokenStream::logprobs(int64_t i) const {
  return {logprobs_.data() + i * top_, static_cast<size_t>(top_)};
}

std::span<const TokenLogprob> TokenStream::prompt_logprobs(int64_t i) const {
  if (i == 0) return {};
  return {prompt_logprobs_.get() + i * prompt_top_, static_cast<size_t>(prompt_top_)};
}

}  // namespace octavo
