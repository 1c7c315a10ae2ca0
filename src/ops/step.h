// What one engine step computes: a ragged batch of new tokens, decodes and prefill chunks mixed, over paged
// KV.
#pragma once

#include <cstdint>

#include "base/team.h"
#include "base/workspace.h"
#include "kernels/table.h"

namespace octavo {

struct Linear;

/// Sees the inputs of linear layers as they run: how calibration learns what a layer reads.
class LinearObserver {
 public:
  virtual ~LinearObserver() = default;
  /// x [m, weights.k], row stride ldx. Called by the thread that runs the op, before it.
  virtual void observe(const Linear& weights, const float* x, int64_t ldx, int64_t m) = 0;
};

/// Context of every op: passed, never global.
struct OpContext {
  Team& team;
  Workspace& workspace;
  const kernels::KernelTable& kernels;
  LinearObserver* observer = nullptr;  ///< null in serving
};

/// Block tables of one KV group (the layers that share one pattern: full attention, or one sliding window).
struct KvGroupStep {
  const int32_t* block_tables;  ///< [num_seqs, max_blocks]: block of position p is table[p / block_size]; -1
                                ///< where a sliding window has passed
  int64_t max_blocks;
  const int32_t* slots;  ///< [num_tokens]: block * block_size + offset where this token's K and V go
};

struct StepInput {
  int num_tokens;                ///< T: all new tokens of the step
  const int32_t* token_ids;      ///< [T]
  const int32_t* positions;      ///< [T]
  int num_seqs;                  ///< S
  const int32_t* query_start;    ///< [S + 1]: sequence s owns tokens [query_start[s], query_start[s + 1])
  const int32_t* context_len;    ///< [S]: keys visible to the last token, new ones included
  const KvGroupStep* kv_groups;  ///< [the model's number of KV groups]
  int num_logit_rows;            ///< R
  const int32_t* logit_rows;     ///< [R]: tokens whose logits are wanted
};

}  // namespace octavo
