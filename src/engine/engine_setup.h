// What an Engine is built of, and what a request becomes when it enters: all memory is taken here, on the
// caller's thread.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/kv_cache.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"

namespace octavo {

struct EngineParts {
  std::unique_ptr<KvCache> cache;
  std::unique_ptr<BlockPool> pool;
  std::unique_ptr<KvBlocks> blocks;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Runner> runner;
  int64_t max_rows;  ///< logit rows of a step
  size_t kv_bytes, workspace_bytes;
  double seconds_per_token;  ///< of a small prefill, measured
};

/// Completes `config` (lengths and limits as they take effect).
EngineParts build_engine_parts(Model& model, EngineConfig& config, Team& team,
                               const kernels::KernelTable& kernels);

std::unique_ptr<Sequence> make_sequence(EngineRequest request, const EngineConfig& config,
                                        const ModelInfo& model, const KvBlocks& blocks,
                                        uint64_t arrival_order);

}  // namespace octavo
