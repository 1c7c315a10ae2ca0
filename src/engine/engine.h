// The engine: one thread that drains the queue, plans a step, runs it, samples and commits.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/team.h"
#include "engine/request.h"
#include "engine/token_stream.h"
#include "model/model.h"

namespace octavo {

enum class SchedulingPolicy : uint8_t { kFcfs, kPriority };

struct EngineConfig {
  int64_t max_model_len = 0;             ///< 0: the model's
  int64_t max_num_batched_tokens = 2048;
  int max_num_seqs = 128;
  int block_size = 32;
  size_t kv_cache_bytes = 0;             ///< 0: what is available, see kv_cache.h
  kernels::KvFormat kv_format = kernels::KvFormat::kBF16;
  int64_t num_blocks_override = 0;       ///< --num-gpu-blocks-override
  bool enable_prefix_caching = true;
  int64_t long_prefill_token_threshold = 0;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  int64_t max_num_queued_reqs = 0, max_num_queued_tokens = 0;  ///< 0: unlimited
  uint64_t seed = 0;
};

/// Gauges and counters since start; a consistent snapshot.
struct EngineStats {
  int64_t running = 0, waiting = 0;
  double kv_usage = 0;  ///< 0..1; blocks held only by the prefix cache count as free
  int64_t prompt_tokens = 0, generation_tokens = 0, preemptions = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  ///< tokens
  int64_t steps = 0;
  int64_t num_blocks = 0, block_size = 0, kv_cache_tokens = 0, max_model_len = 0;
  // Histogram of tokens per step is observed by the listener (StepReport).
};

/// Called on the engine thread after each step that produced output; must not block or allocate.
struct StepReport {
  int64_t tokens;  ///< scheduled in this step, prompt and decode
};

class Engine {
 public:
  Engine(std::unique_ptr<Model> model, const EngineConfig& config, Team& team, const kernels::KernelTable& kernels);
  ~Engine();

  /// Starts the engine thread. Before, step() may be called directly (tests, offline use).
  void start();
  /// Aborts everything and joins the thread.
  void stop();

  enum class Refusal : uint8_t { kNone, kQueueFull, kTooLong, kStopping };
  /// Any thread. Validates lengths against the pool; the stream receives tokens until finished().
  std::shared_ptr<TokenStream> submit(EngineRequest request, Refusal* refusal);
  /// Any thread; unknown ids are ignored. Blocks are free again after the step under way.
  void abort(uint64_t id);

  /// One step: drain, plan, run, sample, commit. False when there was nothing to do.
  bool step();

  /// Wakes the frontend after steps with output. Set before start().
  void set_listener(std::function<void(const StepReport&)> listener);

  EngineStats stats() const;
  bool reset_prefix_cache();
  const ModelInfo& model_info() const;
  const EngineConfig& config() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
