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

struct EngineConfig {
  int64_t max_model_len = 0;  ///< 0: the model's; -1: the longest that fits in the KV cache
  int64_t max_num_batched_tokens = 2048;
  int max_num_seqs = 128;
  int block_size = 32;
  size_t kv_cache_bytes = 0;         ///< 0: kv_memory_fraction of what is available, see kv_cache.h
  double kv_memory_fraction = 0.92;  ///< --gpu-memory-utilization
  kernels::KvFormat kv_format = kernels::KvFormat::kBF16;
  int64_t num_blocks_override = 0;  ///< --num-gpu-blocks-override
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
  int64_t corrupted_requests = 0;               ///< ended with kError: NaN logits or a failed step
  int64_t steps = 0;
  int64_t num_blocks = 0, block_size = 0, kv_cache_tokens = 0, max_model_len = 0;
  size_t kv_bytes = 0, workspace_bytes = 0;
  // Histogram of tokens per step is observed by the listener (StepReport).
};

/// Called on the engine thread after each step, and when requests ended without one; must not block or
/// allocate.
struct StepReport {
  /// Prompt tokens computed and tokens generated in this step (vLLM's iteration tokens: p + m over a
  /// request's life, where p is its prompt and m its output); 0: no step, but requests were aborted.
  int64_t tokens;
};

class Engine {
 public:
  /// Sizes and maps the KV cache and runs a small warm-up step. Throws Error when the KV cache does not fit.
  Engine(std::unique_ptr<Model> model, const EngineConfig& config, Team& team,
         const kernels::KernelTable& kernels);
  ~Engine();

  /// Starts the engine thread. Before, step() may be called directly (tests, offline use).
  void start();
  /// Aborts everything and joins the thread.
  void stop();

  /// kTooLong: the prompt exceeds max_model_len or can never fit into the KV cache. kBadToken: an id outside
  /// the vocabulary.
  enum class Refusal : uint8_t { kNone, kQueueFull, kTooLong, kStopping, kBadToken };
  /// Any thread. Null and *refusal when refused; else the stream receives tokens until finished(). It may end
  /// (kLength) before max_tokens, where max_model_len or the whole KV cache is reached.
  std::shared_ptr<TokenStream> submit(EngineRequest request, Refusal* refusal);
  /// Any thread; unknown ids are ignored. Blocks are free again after the step under way.
  void abort(uint64_t id);

  /// One step: drain, plan, run, sample, commit. False when there was nothing to do.
  bool step();

  /// Wakes the frontend after steps with output. Set before start().
  void set_listener(std::function<void(const StepReport&)> listener);

  EngineStats stats() const;
  /// False while requests are running.
  bool reset_prefix_cache();
  const ModelInfo& model_info() const;
  /// With max_model_len, max_num_batched_tokens and max_num_seqs as they took effect.
  const EngineConfig& config() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
