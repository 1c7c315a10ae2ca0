// Turns a plan into the arrays that a model reads, and runs it. All arrays are taken at construction.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler.h"
#include "model/model.h"

namespace octavo {

struct RunnerLimits {
  int64_t max_tokens;  ///< of a step
  int64_t max_seqs;
  int64_t max_rows;        ///< logit rows of a step
  int64_t max_seq_blocks;  ///< entries of a block table
  int block_size;
};

/// One row of logits: those after token `position` of the sequence.
struct LogitRow {
  Sequence* seq;
  int64_t position;
  bool sample;  ///< the next token is drawn from it
  bool score;   ///< prompt log-probability of token position + 1
};

class Runner {
 public:
  Runner(Model& model, Team& team, const kernels::KernelTable& kernels, const RunnerLimits& limits);

  /// Computes the plan. The logits [rows().size(), vocab] may be overwritten, and hold until the next run.
  float* run(const StepPlan& plan, const KvStore& kv);
  const std::vector<LogitRow>& rows() const { return rows_; }

  struct Cost {
    size_t workspace_bytes;    ///< of the largest step, extrapolated
    double seconds_per_token;  ///< of a small prefill
  };
  /// Runs small steps of made-up tokens: loads pages and measures. A step of the largest batch would take
  /// seconds for what two points of a line tell: the workspace grows linearly with the tokens of a step.
  Cost warm_up(const KvStore& kv, int64_t num_blocks);

 private:
  void add_tokens(const PlannedChunk& chunk);
  void add_rows(const PlannedChunk& chunk, int64_t first_token);
  void fill_tables(const StepPlan& plan);
  float* forward(const KvStore& kv);

  Model& model_;
  const RunnerLimits limits_;
  Workspace workspace_;
  OpContext context_;
  std::vector<int32_t> token_ids_, positions_, query_start_, context_len_, logit_rows_;
  std::vector<std::vector<int32_t>> tables_,
      slots_;  // [group][max_seqs * max_seq_blocks], [group][max_tokens]
  std::vector<KvGroupStep> groups_;
  std::vector<LogitRow> rows_;
};

}  // namespace octavo
