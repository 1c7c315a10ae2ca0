// The channel from the engine thread to one request's reader: all memory is reserved at submit, so the engine
// appends without allocating, and a slow reader costs at most max_tokens entries and never stalls a step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/request.h"

namespace octavo {

class TokenStream {
 public:
  /// `top` logprob entries a token (logprobs + 1, or 0), for at most max_tokens tokens.
  TokenStream(uint64_t id, int64_t max_tokens, int top, int64_t prompt_tokens, int prompt_top);

  uint64_t id() const { return id_; }

  // Engine side. The reader sees a token with the next publish() or finish(), so the end of a sequence never
  // comes apart from its last token.
  void append(int32_t token, std::span<const TokenLogprob> logprobs);
  void publish();
  /// [prompt_top] to be written before the first append.
  std::span<TokenLogprob> prompt_logprobs_slot(int64_t position);
  void finish(FinishInfo info);

  // Reader side; any thread, one reader. Tokens below size() and, once finished() is true, info() are stable;
  // prompt log-probabilities once one of the two shows the prompt to be done.
  struct Seen {
    int64_t size;
    bool finished;
  };
  Seen seen() const {  ///< both at one moment
    const int64_t state = state_.load(std::memory_order_acquire);
    return {state / 2, state % 2 != 0};
  }
  int64_t size() const { return seen().size; }
  bool finished() const { return seen().finished; }
  int32_t token(int64_t i) const { return tokens_[i]; }
  std::span<const TokenLogprob> logprobs(int64_t i) const;  ///< the sampled token first, then the best ones
  std::span<const TokenLogprob> prompt_logprobs(int64_t i) const;  ///< empty for i = 0
  const FinishInfo& info() const { return info_; }

 private:
  const uint64_t id_;
  const int top_, prompt_top_;
  std::vector<int32_t> tokens_;                      // reserved to max_tokens, written once each
  std::vector<TokenLogprob> logprobs_;               // [tokens, top], the same
  std::unique_ptr<TokenLogprob[]> prompt_logprobs_;  // [prompt_tokens, prompt_top], not touched before a step
  std::atomic<int64_t> state_{0};                    // 2 * size + finished
  FinishInfo info_;
};

}  // namespace octavo
