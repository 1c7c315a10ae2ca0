#include "frontend/frontend.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "frontend/api_error.h"

namespace octavo {

/// A sequence until the engine has ended it, whether or not its Stream still lives.
struct Frontend::Active {
  std::shared_ptr<TokenStream> tokens;
  std::shared_ptr<Waker> waker;
  int64_t prompt_tokens, max_tokens, n;
  bool first_child;
  double submitted;
  bool decided;  // the engine's reason may be reported: no stop string can still come before it
  double last_token = 0;
  int64_t seen = 0;
  FinishReason reason = FinishReason::kNone;  // ours, where we ended it: a stop string is not an abort
  bool end_noticed = false;
};

Frontend::Frontend(Engine& engine, Text& text, FrontendOptions options)
    : engine_(engine),
      text_(text),
      options_(std::move(options)),
      max_model_len_(engine.config().max_model_len > 0 ? engine.config().max_model_len
                                                       : engine.model_info().max_model_len),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  OCTAVO_CHECK(wake_fd_ >= 0);
  engine_.set_listener([this](const StepReport& report) { on_step(report); });
}

Frontend::~Frontend() { close(wake_fd_); }

/// On the engine thread. As vLLM counts: a prompt in the step of its first token, and only steps with output.
void Frontend::on_step(const StepReport&) {
  EngineStats stats = engine_.stats();
  int64_t total = stats.prompt_tokens + stats.generation_tokens, tokens = total - counted_tokens_;
  counted_tokens_ = total;
  if (tokens > 0) {
    size_t bucket = std::ranges::lower_bound(kStepBuckets, tokens) - kStepBuckets.begin();
    step_counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    step_tokens_.fetch_add(tokens, std::memory_order_relaxed);
  }
  wake();
}

void Frontend::wake() {
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written =
      write(wake_fd_, &one, sizeof one);  // fails only when it is already readable
}

std::unique_ptr<Stream> Frontend::submit(Prepared request) {
  std::vector<std::shared_ptr<TokenStream>> children;
  auto waker = std::make_shared<Waker>();
  std::list<Active> fresh;
  double now = steady_seconds();
  Engine::Refusal refusal = Engine::Refusal::kNone;
  for (int64_t i = 0; i < request.fields.n && refusal == Engine::Refusal::kNone; ++i) {
    EngineRequest child{next_id_++, request.prompt, request.sampling, request.priority, request.cache_salt};
    if (child.sampling.seed)  // unsigned: the sum may wrap
      child.sampling.seed =
          static_cast<int64_t>(static_cast<uint64_t>(*child.sampling.seed) + static_cast<uint64_t>(i));
    if (auto tokens = engine_.submit(std::move(child), &refusal)) {
      children.push_back(tokens);
      fresh.push_back({std::move(tokens), waker, static_cast<int64_t>(request.prompt.size()),
                       request.sampling.max_tokens, request.fields.n, i == 0, now,
                       request.fields.stop.empty()});
    }
  }
  {
    std::lock_guard lock(mutex_);
    active_.splice(active_.end(), fresh);
  }
  wake();  // a poll() on another thread may have come between the engine's first tokens and the list
  if (refusal != Engine::Refusal::kNone) {
    for (auto& tokens : children) end(tokens->id(), FinishReason::kAbort);
    // Ids were checked by prepare(), lengths against max_model_len: what is left is a prompt larger than the
    // whole cache.
    if (refusal == Engine::Refusal::kTooLong || refusal == Engine::Refusal::kBadToken)
      bad_request("prompt", str("The prompt of ", request.prompt.size(),
                                " tokens with max_tokens=", request.sampling.max_tokens,
                                " does not fit the KV cache. This model's maximum context length is ",
                                max_model_len_, " tokens."));
    unavailable(refusal == Engine::Refusal::kQueueFull
                    ? "The server's request queue is full. Please try again later."
                    : "The server is shutting down.");
  }
  return std::make_unique<Stream>(*this, std::move(request), std::move(children), std::move(waker));
}

void Frontend::end(uint64_t id, FinishReason reason) {
  {
    std::lock_guard lock(mutex_);
    for (Active& active : active_)
      if (active.tokens->id() == id) active.reason = reason, active.decided = true;
  }
  if (reason != FinishReason::kNone) engine_.abort(id);
  wake();
}

void Frontend::abort_all() {
  std::lock_guard lock(mutex_);
  for (Active& active : active_) engine_.abort(active.tokens->id());
}

size_t Frontend::active() const {
  std::lock_guard lock(mutex_);
  return active_.size();
}

void Frontend::poll() {
  uint64_t count;
  [[maybe_unused]] ssize_t got = read(wake_fd_, &count, sizeof count);
  std::vector<std::shared_ptr<Waker>> wakers;
  double now = steady_seconds();
  {
    std::lock_guard lock(mutex_);
    for (auto it = active_.begin(); it != active_.end();) {
      Active& active = *it;
      bool finished = active.tokens->finished();  // before size(), see Child::next
      int64_t size = active.tokens->size();
      if (size > active.seen || (finished && !active.end_noticed)) {
        if (wakers.empty() || wakers.back() != active.waker) wakers.push_back(active.waker);
        report_progress(active, now, size);
        active.end_noticed = finished;
      }
      if (!finished || !active.decided) {
        ++it;
        continue;
      }
      const FinishInfo& info = active.tokens->info();
      if (observer_)
        observer_->on_finish({active.reason != FinishReason::kNone ? active.reason : info.reason, info,
                              active.prompt_tokens, size, active.max_tokens, active.n, active.first_child});
      it = active_.erase(it);
    }
  }
  for (auto& waker : wakers)
    if (waker->wake) waker->wake();
}

void Frontend::report_progress(Active& active, double now, int64_t size) {
  int64_t fresh = size - active.seen;
  if (fresh == 0) return;
  if (observer_ && active.seen == 0) {
    observer_->on_first_token(now - active.submitted);
    active.last_token = now;
    --fresh;
  }
  if (observer_ && fresh > 0)
    observer_->on_tokens(fresh, (now - active.last_token) / static_cast<double>(fresh));
  active.last_token = now;
  active.seen = size;
}

void Frontend::wait(double seconds) {
  pollfd descriptor{wake_fd_, POLLIN, 0};
  ::poll(&descriptor, 1, static_cast<int>(seconds * 1000));
  poll();
}

StepCounts Frontend::step_counts() const {
  StepCounts out;
  for (size_t i = 0; i < out.count.size(); ++i)
    out.count[i] = step_counts_[i].load(std::memory_order_relaxed);
  out.tokens = step_tokens_.load(std::memory_order_relaxed);
  return out;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace octavo
