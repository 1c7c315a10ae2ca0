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

  ModelInfo info_;
  bool norm_first_;
  Embedding embedding_;
  PositionEmbedding positions_;
  Linear project_in_;  // from the embedding's width, where it is not the model's
  std::vector<Layer> layers_;
  LmHead head_;
};

Opt::Opt(Loader& loader) {
  const ModelConfig& c = loader.config();
  norm_first_ = c.norm_first;
  const std::string prefix = loader.prefix({"model.decoder.", "decoder."}, "embed_tokens.weight");
  const int64_t width = c.word_embed_proj_dim;
  embedding_.bind(loader, prefix + "embed_tokens", c.vocab, width);
  positions_.bind(loader, prefix + "embed_positions", c.max_position_embeddings, c.hidden, kPositionOffset);
  const bool project = width != c.hidden;
  if (project) loader.linear(project_in_, "project_in", width, {{prefix + "project_in", c.hidden}});
  layers_.resize(c.layers);
  for (int i = 0; i < c.layers; ++i) bind_layer(loader, str(prefix, "layers.", i, "."), i);
  head_.bind(loader,
             {.weights = c.tie_word_embeddings ? prefix + "embed_tokens" : "lm_head",
              .norm = c.final_norm ? prefix + "final_layer_norm" : "",
              .project = project ? prefix + "project_out" : ""},
             c.hidden, width);
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
  if (project_in_.n) {
    Workspace::Scope scope(ctx.workspace);
    float* narrow = ctx.workspace.alloc<float>(tokens * project_in_.k);
    embedding_.forward(ctx, step.input.token_ids, tokens, narrow);
    linear(ctx, project_in_, narrow, project_in_.k, tokens, x, project_in_.n);
  } else {
    embedding_.forward(ctx, step.input.token_ids, tokens, x);
  }
  positions_.forward(step, x);
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
    if (&layer == &layers_.back()) rows = keep_logit_rows(step, x, info_.hidden);
    if (norm_first_) layer.mlp_norm.forward(ctx, x, rows, normed);
    layer.mlp.forward(ctx, norm_first_ ? normed : x, rows, x);
    if (!norm_first_) layer.mlp_norm.forward(ctx, x, rows, x);
  }
  head_.forward(ctx, x, rows, logits);
}

}  // namespace

std::unique_ptr<Model> make_opt(Loader& loader) { return std::make_unique<Opt>(loader); }

}  // namespace octavo
