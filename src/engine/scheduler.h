// Decides what a step computes. Integers only: sequences in, a plan out; no tensors, no clock, no threads.
//
// One token budget a step. Running sequences that decode come first (one token each), then prefills under
// way, then new ones from the waiting queue; there is no prefill or decode phase. A sequence whose block
// cannot be had preempts: the victim (last of the running; under kPriority the least urgent) loses its blocks
// and is recomputed later.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/kv_blocks.h"

namespace octavo {

struct SchedulerConfig {
  int64_t max_num_batched_tokens = 2048;
  int max_num_seqs = 128;
  int64_t long_prefill_token_threshold = 0;  ///< most prefill tokens of one sequence a step; 0: no such limit
  int64_t max_prompt_logit_rows = 256;       ///< of prompt_logprobs requests, all together, a step
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
};

/// Tokens [first, first + count) of one sequence.
struct PlannedChunk {
  Sequence* seq;
  int64_t first;
  int32_t count;
  bool samples;  ///< reaches the sequence's last token: its logits give the next one
};

struct StepPlan {
  std::vector<PlannedChunk> chunks;
  int64_t tokens = 0;
  int64_t prefill_tokens = 0;  ///< of `tokens`, those of chunks that are not a decode
  std::vector<Sequence*>
      outgrown;  ///< cannot grow although they have the pool for themselves: end them with kLength
  int64_t prefix_queries = 0, prefix_hits = 0;  ///< tokens of sequences first admitted in this step
  int preempted = 0, admitted = 0;
};

class Scheduler {
 public:
  Scheduler(const SchedulerConfig& config, KvBlocks& kv, BlockPool& pool);

  void add(Sequence* seq);
  /// Forgets a waiting or running sequence and frees its blocks.
  void remove(Sequence* seq);

  /// `prefill_with_decodes`, `prefill_alone`: most prefill tokens of a step that also decodes, or does not:
  /// the engine derives them from measured speed, so that a long prompt does not stall running streams.
  const StepPlan& plan(int64_t prefill_with_decodes = kNoLimit, int64_t prefill_alone = kNoLimit);
  /// The planned tokens are computed.
  void commit();
  /// The step failed: what it would have computed must not be found in the prefix cache. Then remove() its
  /// sequences.
  void discard_plan();

  bool idle() const { return running_.empty() && !waiting_.next; }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return num_waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }
  Sequence* first_waiting() const { return waiting_.next; }  ///< follow `next` for the others, in order

  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

 private:
  struct Queue {  // intrusive, in order of admission
    Sequence *next = nullptr, *last = nullptr;
  };
  struct Budget {
    int64_t tokens, prefill, rows;
  };

  bool before(const Sequence& a, const Sequence& b) const;
  void insert_waiting(Sequence* seq, Sequence* next);
  void unlink_waiting(Sequence* seq);
  void plan_decodes(Budget& budget);
  void plan_prefills(Budget& budget);
  void admit(Budget& budget);
  bool try_admit(Sequence& seq);
  int64_t chunk_tokens(const Sequence& seq, const Budget& budget) const;
  void add_chunk(Sequence& seq, int64_t count, Budget& budget);
  bool make_room(Sequence& seq, int64_t end, Budget& budget);
  Sequence* pick_victim() const;
  void preempt(Sequence& victim, Budget& budget);

  const SchedulerConfig config_;
  KvBlocks& kv_;
  BlockPool& pool_;
  std::vector<Sequence*> running_;  // in order of admission
  Queue waiting_;
  int64_t num_waiting_ = 0;
  StepPlan plan_;
};

}  // namespace octavo
