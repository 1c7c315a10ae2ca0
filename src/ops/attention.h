// Paged attention of one layer over the ragged batch of a step.
#pragma once

#include "ops/step.h"

namespace octavo {

struct AttentionShape {
  int heads, kv_heads, head_dim;
  float scale;                   ///< usually head_dim^-0.5
  int64_t window = 0;            ///< sliding window: query i sees keys j with i - j < window; 0: all
  float softcap = 0;             ///< 0: none
  const float* sinks = nullptr;  ///< [heads] or null (GPT-OSS)
};

/// One layer's slice of the KV cache.
struct LayerKv {
  kernels::KvFormat format;
  kernels::KvView view;
};

/// Stores this step's K and V [T, kv_heads * head_dim] at group.slots.
void write_kv(OpContext& ctx, const StepInput& step, const KvGroupStep& group, const LayerKv& kv,
              const float* k, int64_t ldk, const float* v, int64_t ldv);

/// out[T, heads * head_dim] from q[T, heads * head_dim] and all keys up to each token (its own included, so
/// write_kv first).
void attention(OpContext& ctx, const StepInput& step, const KvGroupStep& group, const LayerKv& kv,
               const AttentionShape& shape, const float* q, int64_t ldq, float* out, int64_t ldo);

/// Workspace that attention() may need at most for a step of max_tokens tokens and max_seqs sequences.
size_t attention_workspace(const OpContext& ctx, const AttentionShape& shape, int max_tokens, int max_seqs,
                           int64_t max_context);

}  // namespace octavo
