// The one facade over the engine, for server, CLI and Python: text in, text out (DESIGN.md, section 3, steps
// 3 and 10).
//
// Threads: prepare(), submit() and end() from any; a Stream, and poll(), from one thread (the HTTP thread,
// or the CLI's). The engine thread only writes to an eventfd; whoever owns the reading thread waits for
// wake_fd() and calls poll().
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "frontend/generate.h"
#include "frontend/stream.h"
#include "frontend/text.h"

namespace octavo {

/// One ended sequence, for metrics and logs.
struct RequestReport {
  FinishReason reason;
  FinishInfo info;
  int64_t prompt_tokens, generated_tokens, max_tokens;
  int64_t n;         ///< of its request
  bool first_child;  ///< per-request (not per-sequence) figures are counted with it
};

/// Called from poll(). Times in seconds.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  virtual void on_first_token(double seconds) = 0;
  virtual void on_tokens(int64_t count, double seconds_each) = 0;
  virtual void on_finish(const RequestReport& report) = 0;
};

struct FrontendOptions {
  SamplingDefaults defaults;
  std::vector<int32_t> eos_ids;  ///< of config, generation_config and tokenizer together
  int64_t max_logprobs = 20;
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
};

/// Sums over steps that produced output, as the engine thread counts them.
struct StepCounts {
  static constexpr int kBuckets = 17;  ///< edges of kStepBuckets, then +Inf
  std::array<int64_t, kBuckets> count{};
  int64_t tokens = 0;
};
/// Upper edges of vllm:iteration_tokens_total.
inline constexpr std::array<int, StepCounts::kBuckets - 1> kStepBuckets = {
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072};

class Frontend {
 public:
  /// Sets the engine's listener: construct before Engine::start().
  Frontend(Engine& engine, Text& text, FrontendOptions options);
  ~Frontend();

  /// Tokenises and checks. ApiError 400 if the request is wrong.
  Prepared prepare(const GenerateRequest& request) const;
  /// Hands all n children to the engine. ApiError 503 if it does not take them.
  std::unique_ptr<Stream> submit(Prepared request);
  std::unique_ptr<Stream> submit(const GenerateRequest& request) { return submit(prepare(request)); }
  /// A reader is done with a sequence: kNone as the engine ended it, else why we end it (a stop string, a
  /// client that left).
  void end(uint64_t id, FinishReason reason);
  /// Ends everything in flight (shutdown); streams finish with kAbort.
  void abort_all();

  /// Readable after steps with output.
  int wake_fd() const { return wake_fd_; }
  /// Clears wake_fd(), reports new tokens to the observer and wakes the readers concerned.
  void poll();
  /// poll() after waiting for at most `seconds`: the loop of a caller without an event loop.
  void wait(double seconds);
  void set_observer(RequestObserver* observer) { observer_ = observer; }

  StepCounts step_counts() const;
  Engine& engine() { return engine_; }
  Text& text() { return text_; }
  const FrontendOptions& options() const { return options_; }
  int64_t max_model_len() const { return max_model_len_; }
  size_t active() const;

 private:
  struct Active;
  std::vector<int32_t> encode(const GenerateRequest& request) const;
  void report_progress(Active& active, double now, int64_t size);
  void on_step(const StepReport& report);
  void wake();

  Engine& engine_;
  Text& text_;
  const FrontendOptions options_;
  const int64_t max_model_len_;
  int wake_fd_;
  RequestObserver* observer_ = nullptr;
  std::atomic<uint64_t> next_id_{1};
  mutable std::mutex mutex_;  // guards active_
  std::list<Active> active_;
  std::array<std::atomic<int64_t>, StepCounts::kBuckets> step_counts_{};
  std::atomic<int64_t> step_tokens_{0};
  int64_t counted_tokens_ = 0;  // of the engine thread
};

/// Seconds of the clock that FinishInfo uses.
double steady_seconds();

}  // namespace octavo
