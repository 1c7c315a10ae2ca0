// The output of one request: its n children's tokens turned into text as they come.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/token_stream.h"
#include "frontend/generate.h"

namespace octavo {

class Child;
class Frontend;
class Text;

/// Wakes the reader of a Stream; shared with the frontend, which calls it from poll().
struct Waker {
  std::function<void()> wake;
};

/// Pull interface, used by one thread. Destroying a Stream aborts what is still running.
class Stream {
 public:
  Stream(Frontend& frontend, Prepared request, std::vector<std::shared_ptr<TokenStream>> children,
         std::shared_ptr<Waker> waker);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// The next delta that is ready: all new tokens of one child, at most kMaxDeltaTokens. False: nothing new
  /// yet, or done(). `min_tokens` > 1 waits for that many (--stream-interval), but for the first token and
  /// the end.
  bool next(TextDelta& out, int64_t min_tokens = 1);
  bool done() const { return open_ == 0; }
  /// Called (from Frontend::poll) when more may be ready. Call next() once after setting it.
  void set_waker(std::function<void()> wake) { waker_->wake = std::move(wake); }

  const std::vector<int32_t>& prompt() const { return request_.prompt; }
  const Prepared& request() const { return request_; }
  /// Empty for position 0; complete once the first token or the end came.
  TokenLogprobs prompt_logprobs(int64_t position) const;
  Usage usage() const;
  /// Timing of child 0; valid when done().
  const FinishInfo& info() const;

  static constexpr int64_t kMaxDeltaTokens = 512;

 private:
  Frontend& frontend_;
  const Prepared request_;
  std::vector<std::unique_ptr<Child>> children_;
  std::shared_ptr<Waker> waker_;
  size_t open_ = 0, turn_ = 0;
};

}  // namespace octavo
