#include "model/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/loader.h"

namespace octavo {
namespace {

/// Tokens of an MLP that go through it together. Bounds the workspace ([rows, 2 * intermediate] floats are 25
/// MB in a Llama of 1 G); rows do not depend on each other. A multiple of the tiles (6, 14 and 192 rows leave
/// at most one partial); 192, 384 and 768 took the same time in a prefill of 512.
constexpr int64_t kMlpRows = 384;

template <class F>
void by_rows(int64_t rows, const F& fn) {
  for (int64_t r = 0; r < rows; r += kMlpRows) fn(r, std::min(kMlpRows, rows - r));
}

}  // namespace

void Norm::bind(Loader& loader, const std::string& name, int64_t width) {
  kind = loader.config().norm;
  eps = static_cast<float>(loader.config().norm_eps);
  loader.vector(weight, name + ".weight", width);
  if (kind == NormKind::kLayerNorm) loader.vector(bias, name + ".bias", width);
}

void Norm::forward(OpContext& ctx, const float* x, int64_t rows, float* y) const {
  const int64_t width = static_cast<int64_t>(weight.size());
  if (kind == NormKind::kRmsNorm)
    rms_norm(ctx, x, width, weight.data(), eps, rows, width, y, width);
  else
    layer_norm(ctx, x, weight.data(), bias.data(), eps, rows, width, y);
}

void Embedding::bind(Loader& loader, const std::string& name, int64_t vocab, int64_t width) {
  loader.embedding(*this, name, vocab, width);
}

void PositionEmbedding::bind(Loader& loader, const std::string& name, int64_t positions, int64_t width,
                             int64_t first_row) {
  rows.bind(loader, name, positions + first_row, width);
  offset = first_row;
}

void PositionEmbedding::forward(const Step& step, float* x) const {
  Workspace::Scope scope(step.ctx.workspace);
  EmbeddingView table = rows.table;
  table.rows = static_cast<const std::byte*>(table.rows) + offset * table.row_bytes;
  table.vocab -= offset;
  const int64_t count = step.input.num_tokens * table.hidden;
  float* y = step.ctx.workspace.alloc<float>(count);
  octavo::embedding(step.ctx, table, step.input.positions, step.input.num_tokens, y);
  add(step.ctx, x, y, count);
}

void Attention::bind(Loader& loader, const AttentionOptions& o, const std::vector<Matrix>& qkv_parts,
                     const Matrix& out_part) {
  shape = {o.heads, o.kv_heads, o.head_dim, o.scale, o.window, o.softcap, nullptr};
  if (shape.scale == 0) shape.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(o.head_dim)));
  rope = o.rope;
  loader.kv_layer(o.window, &kv_group, &kv_layer);
  loader.linear(qkv, "qkv_proj", o.hidden, qkv_parts);
  loader.linear(out, "o_proj", static_cast<int64_t>(o.heads) * o.head_dim, {out_part});
  if (o.qk_norm) {
    q_norm.bind(loader, o.q_norm, o.head_dim);
    k_norm.bind(loader, o.k_norm, o.head_dim);
  }
  if (!o.sinks.empty()) {
    loader.vector(sinks, o.sinks, o.heads);
    shape.sinks = sinks.data();
  }
}

void Attention::forward(const Step& step, const float* x, float* residual) const {
  OpContext& ctx = step.ctx;
  Workspace::Scope scope(ctx.workspace);
  const int64_t tokens = step.input.num_tokens;
  const int64_t q_width = static_cast<int64_t>(shape.heads) * shape.head_dim;
  const int64_t kv_width = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
  const int64_t ld = padded_width(q_width + 2 * kv_width);  // one row: heads of q, of k, of v

  float* q = ctx.workspace.alloc<float>(tokens * ld);
  float *k = q + q_width, *v = k + kv_width;
  linear(ctx, qkv, x, qkv.k, tokens, q, ld);
  if (!q_norm.weight.empty()) {
    head_norm(ctx, q, ld, tokens, shape.heads, shape.head_dim, q_norm.weight.data(), q_norm.eps);
    head_norm(ctx, k, ld, tokens, shape.kv_heads, shape.head_dim, k_norm.weight.data(), k_norm.eps);
  }
  if (rope)
    octavo::rope(ctx, *rope, step.input.positions, tokens, q, ld, shape.heads + shape.kv_heads,
                 shape.head_dim);

  const KvGroupStep& group = step.input.kv_groups[kv_group];
  const LayerKv kv = step.kv.layer(kv_layer);
  write_kv(ctx, step.input, group, kv, k, ld, v, ld);
  float* attended = ctx.workspace.alloc<float>(tokens * q_width);
  attention(ctx, step.input, group, kv, shape, q, ld, attended, q_width);
  linear(ctx, out, attended, q_width, tokens, residual, out.n, /*accumulate=*/true);
}

void GatedMlp::bind(Loader& loader, Activation activation, int64_t hidden, const Matrix& gate,
                    const Matrix& up, const Matrix& down_part) {
  act = activation;
  loader.linear(gate_up, "gate_up_proj", hidden, {gate, up});
  loader.linear(down, "down_proj", gate.n, {down_part});
}

void GatedMlp::forward(OpContext& ctx, const float* x, int64_t rows, float* residual) const {
  Workspace::Scope scope(ctx.workspace);
  const int64_t ld = padded_width(gate_up.n);
  float* both = ctx.workspace.alloc<float>(std::min(rows, kMlpRows) * ld);
  float* gated = ctx.workspace.alloc<float>(std::min(rows, kMlpRows) * down.k);
  by_rows(rows, [&](int64_t r, int64_t m) {
    linear(ctx, gate_up, x + r * gate_up.k, gate_up.k, m, both, ld);
    gated_activation(ctx, act, both, ld, m, down.k, gated);
    linear(ctx, down, gated, down.k, m, residual + r * down.n, down.n, /*accumulate=*/true);
  });
}

void Mlp::bind(Loader& loader, Activation activation, int64_t hidden, const Matrix& fc1_part,
               const Matrix& fc2_part) {
  act = activation;
  loader.linear(fc1, "fc1", hidden, {fc1_part});
  loader.linear(fc2, "fc2", fc1_part.n, {fc2_part});
}

void Mlp::forward(OpContext& ctx, const float* x, int64_t rows, float* residual) const {
  Workspace::Scope scope(ctx.workspace);
  float* wide = ctx.workspace.alloc<float>(std::min(rows, kMlpRows) * fc1.n);
  by_rows(rows, [&](int64_t r, int64_t m) {
    linear(ctx, fc1, x + r * fc1.k, fc1.k, m, wide, fc1.n);
    activation(ctx, act, wide, m, fc1.n);
    linear(ctx, fc2, wide, fc1.n, m, residual + r * fc2.n, fc2.n, /*accumulate=*/true);
  });
}

int64_t keep_logit_rows(const Step& step, float*& x, int64_t width) {
  const int rows = step.input.num_logit_rows;
  float* out = step.ctx.workspace.alloc<float>(rows * width);
  for (int r = 0; r < rows; ++r)
    std::memcpy(out + r * width, x + step.input.logit_rows[r] * width, width * sizeof(float));
  x = out;
  return rows;
}

void LmHead::bind(Loader& loader, const Names& names, int64_t width, int64_t head_width) {
  if (!names.project.empty()) loader.linear(project, "project_out", width, {{names.project, head_width}});
  if (!names.norm.empty()) norm.bind(loader, names.norm, width);
  loader.linear(weights, "lm_head", head_width, {{names.weights, loader.config().vocab}});
}

void LmHead::forward(OpContext& ctx, float* x, int64_t rows, float* logits) const {
  Workspace::Scope scope(ctx.workspace);
  if (!norm.weight.empty()) norm.forward(ctx, x, rows, x);
  if (project.n) {
    float* narrow = ctx.workspace.alloc<float>(rows * project.n);
    linear(ctx, project, x, project.k, rows, narrow, project.n);
    x = narrow;
  }
  linear(ctx, weights, x, weights.k, rows, logits, weights.n);
}

}  // namespace octavo
