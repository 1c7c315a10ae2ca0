// Row-wise operations of a step, split over the Team by rows: norms, rotary, activations, embedding lookup.
#pragma once

#include <vector>

#include "base/activation.h"
#include "ops/step.h"

namespace octavo {

void rms_norm(OpContext& ctx, const float* x, int64_t ldx, const float* w, float eps, int64_t rows, int64_t n,
              float* y, int64_t ldy);
/// residual += x; y = rms_norm(residual). x may be null (then only the norm).
void add_rms_norm(OpContext& ctx, float* residual, const float* x, const float* w, float eps, int64_t rows,
                  int64_t n, float* y);
void layer_norm(OpContext& ctx, const float* x, const float* w, const float* b, float eps, int64_t rows,
                int64_t n, float* y);
/// RMS norm over each head of x[T, heads * head_dim], in place, one w [head_dim] for all heads (q and k of
/// Qwen3).
void head_norm(OpContext& ctx, float* x, int64_t ldx, int64_t tokens, int heads, int head_dim, const float* w,
               float eps);
void add(OpContext& ctx, float* x, const float* y, int64_t count);  ///< x += y

/// Cosines and sines [positions, rotary / 2] each, attention factor (YaRN) included.
struct RopeTable {
  int rotary = 0;
  std::vector<float> cos, sin;
};
/// Rotates heads in place: x[T, heads * head_dim], token t at positions[t].
void rope(OpContext& ctx, const RopeTable& table, const int32_t* positions, int64_t tokens, float* x,
          int64_t ldx, int heads, int head_dim);

/// y[rows, n] = act(x[:, :n]) * x[:, n:2n] (fused gate-up); rows of x are ldx apart.
void gated_activation(OpContext& ctx, Activation act, const float* x, int64_t ldx, int64_t rows, int64_t n,
                      float* y);
void activation(OpContext& ctx, Activation act, float* x, int64_t rows, int64_t n);  ///< in place

/// Embedding matrix [vocab, hidden] as BF16 or F32 rows, or as rows of `row_blocks` blocks that `decode`
/// reads.
struct EmbeddingView {
  const void* rows;
  bool bf16;
  int64_t vocab, hidden;
  int64_t row_bytes;
  void (*decode)(const uint8_t* row, int64_t blocks, float* out) = nullptr;
  int64_t row_blocks = 0;
};
void embedding(OpContext& ctx, const EmbeddingView& table, const int32_t* ids, int64_t tokens, float* y);

}  // namespace octavo
