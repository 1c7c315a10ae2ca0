// OPT (arXiv:2205.01068): learned positions, layer norms before each block or (350m) after it, an embedding
// narrower than the model in 350m.
#include "model/families.h"

namespace octavo {
namespace {

constexpr int64_t kPositionOffset = 2;  // rows 0 and 1 of the position table belonged to padding

struct Layer {
  Norm attention_norm, mlp_norm;
  Attention attention;
  Mlp mlp;
};

class Opt final : public Model {
 public:
  explicit Opt(Loader& loader);
  const ModelInfo& info() const override { return info_; }
  void forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) override;

 private:
  void bind_layer(Loader& loader, const std::string& prefix, int index);
  void embed(const Step& step, float* x) const;
  void head(OpContext& ctx, const float* x, int64_t rows, float* logits) const;

  ModelInfo info_;
  bool norm_first_, final_norm_, project_;
  Embedding embedding_;
  PositionEmbedding positions_;
  Linear project_in_, project_out_;  // between embedding and model width, where they differ
  std::vector<Layer> layers_;
  Norm norm_;
  Linear lm_head_;
};

Opt::Opt(Loader& loader) {
  const ModelConfig& c = loader.config();
  norm_first_ = c.norm_first;
  final_norm_ = c.final_norm;
  project_ = c.word_embed_proj_dim != c.hidden;
  const std::string prefix = loader.prefix({"model.decoder.", "decoder."}, "embed_tokens.weight");
  const int64_t width = c.word_embed_proj_dim;
  embedding_.bind(loader, prefix + "embed_tokens", c.vocab, width);
  positions_.bind(loader, prefix + "embed_positions", c.max_position_embeddings, c.hidden, kPositionOffset);
  if (project_) {
    loader.linear(project_in_, "project_in", width, {{prefix + "project_in", c.hidden}});
    loader.linear(project_out_, "project_out", c.hidden, {{prefix + "project_out", width}});
  }
  layers_.resize(c.layers);
  for (int i = 0; i < c.layers; ++i) bind_layer(loader, str(prefix, "layers.", i, "."), i);
  if (final_norm_) norm_.bind(loader, prefix + "final_layer_norm", c.hidden);
  const std::string head = c.tie_word_embeddings ? prefix + "embed_tokens" : "lm_head";
  loader.linear(lm_head_, "lm_head", width, {{head, c.vocab}});
  info_ = loader.finish();
}

void Opt::bind_layer(Loader& loader, const std::string& prefix, int index) {
  const ModelConfig& c = loader.config();
  Layer& layer = layers_[index];
  const std::string attn = prefix + "self_attn.";
  layer.attention_norm.bind(loader, prefix + "self_attn_layer_norm", c.hidden);
  layer.attention.bind(loader,
                       {.hidden = c.hidden,
                        .heads = static_cast<int>(c.heads),
                        .kv_heads = static_cast<int>(c.kv_heads),
                        .head_dim = static_cast<int>(c.head_dim)},
                       {{attn + "q_proj", c.hidden, c.qkv_bias},
                        {attn + "k_proj", c.hidden, c.qkv_bias},
                        {attn + "v_proj", c.hidden, c.qkv_bias}},
                       {attn + "out_proj", c.hidden, c.out_bias});
  layer.mlp_norm.bind(loader, prefix + "final_layer_norm", c.hidden);
  layer.mlp.bind(loader, c.activation, c.hidden, {prefix + "fc1", c.intermediate, c.mlp_bias},
                 {prefix + "fc2", c.hidden, c.mlp_bias});
}

void Opt::embed(const Step& step, float* x) const {
  OpContext& ctx = step.ctx;
  const int64_t tokens = step.input.num_tokens;
  if (project_) {
    Workspace::Scope scope(ctx.workspace);
    float* narrow = ctx.workspace.alloc<float>(tokens * project_in_.k);
    embedding_.forward(ctx, step.input.token_ids, tokens, narrow);
    linear(ctx, project_in_, narrow, project_in_.k, tokens, x, project_in_.n);
  } else {
    embedding_.forward(ctx, step.input.token_ids, tokens, x);
  }
  positions_.forward(step, x);
}

void Opt::head(OpContext& ctx, const float* x, int64_t rows, float* logits) const {
  if (project_) {
    float* narrow = ctx.workspace.alloc<float>(rows * project_out_.n);
    linear(ctx, project_out_, x, project_out_.k, rows, narrow, project_out_.n);
    x = narrow;
  }
  linear(ctx, lm_head_, x, lm_head_.k, rows, logits, lm_head_.n);
}

void Opt::forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) {
  Workspace::Scope scope(ctx.workspace);
  const Step step{ctx, input, kv};
  int64_t rows = input.num_tokens;
  float* x = ctx.workspace.alloc<float>(rows * info_.hidden);
  float* normed = ctx.workspace.alloc<float>(rows * info_.hidden);
  embed(step, x);
  // A block reads all of its input before it adds to the residual, so in post-norm order both are x.
  for (const Layer& layer : layers_) {
    if (norm_first_) layer.attention_norm.forward(ctx, x, rows, normed);
    layer.attention.forward(step, norm_first_ ? normed : x, x);
    if (!norm_first_) layer.attention_norm.forward(ctx, x, rows, x);
    if (&layer == &layers_.back()) {  // past the last keys only the wanted rows matter
      x = gather_logit_rows(step, x, info_.hidden);
      rows = input.num_logit_rows;
    }
    if (norm_first_) layer.mlp_norm.forward(ctx, x, rows, normed);
    layer.mlp.forward(ctx, norm_first_ ? normed : x, rows, x);
    if (!norm_first_) layer.mlp_norm.forward(ctx, x, rows, x);
  }
  if (final_norm_) norm_.forward(ctx, x, rows, x);
  head(ctx, x, rows, logits);
}

}  // namespace

std::unique_ptr<Model> make_opt(Loader& loader) { return std::make_unique<Opt>(loader); }

}  // namespace octavo
