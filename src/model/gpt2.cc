// GPT-2: learned positions, pre-norm, one fused qkv matrix; matrices stored as [in, out] (Conv1D) and
// transposed at load.
#include "model/families.h"

namespace octavo {
namespace {

struct Layer {
  Norm attention_norm, mlp_norm;
  Attention attention;
  Mlp mlp;
};

class Gpt2 final : public Model {
 public:
  explicit Gpt2(Loader& loader);
  const ModelInfo& info() const override { return info_; }
  void forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) override;

 private:
  void bind_layer(Loader& loader, const std::string& prefix, int index);

  ModelInfo info_;
  Embedding embedding_;
  PositionEmbedding positions_;
  std::vector<Layer> layers_;
  LmHead head_;
};

Gpt2::Gpt2(Loader& loader) {
  const ModelConfig& c = loader.config();
  // The original files have no prefix.
  const std::string prefix = loader.prefix({"transformer.", ""}, "wte.weight");
  embedding_.bind(loader, prefix + "wte", c.vocab, c.hidden);
  positions_.bind(loader, prefix + "wpe", c.max_position_embeddings, c.hidden);
  layers_.resize(c.layers);
  for (int i = 0; i < c.layers; ++i) bind_layer(loader, str(prefix, "h.", i, "."), i);
  head_.bind(loader, {c.tie_word_embeddings ? prefix + "wte" : "lm_head", prefix + "ln_f"}, c.hidden,
             c.hidden);
  info_ = loader.finish();
}

void Gpt2::bind_layer(Loader& loader, const std::string& prefix, int index) {
  const ModelConfig& c = loader.config();
  Layer& layer = layers_[index];
  auto conv1d = [&](const char* name, int64_t n) {
    return Matrix{prefix + name, n, /*bias=*/true, /*transposed=*/true};
  };
  layer.attention_norm.bind(loader, prefix + "ln_1", c.hidden);
  layer.attention.bind(loader,
                       {.hidden = c.hidden,
                        .heads = static_cast<int>(c.heads),
                        .kv_heads = static_cast<int>(c.heads),
                        .head_dim = static_cast<int>(c.head_dim)},
                       {conv1d("attn.c_attn", 3 * c.hidden)}, conv1d("attn.c_proj", c.hidden));
  layer.mlp_norm.bind(loader, prefix + "ln_2", c.hidden);
  layer.mlp.bind(loader, c.activation, c.hidden, conv1d("mlp.c_fc", c.intermediate),
                 conv1d("mlp.c_proj", c.hidden));
}

void Gpt2::forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) {
  Workspace::Scope scope(ctx.workspace);
  const Step step{ctx, input, kv};
  int64_t rows = input.num_tokens;
  float* x = ctx.workspace.alloc<float>(rows * info_.hidden);
  float* normed = ctx.workspace.alloc<float>(rows * info_.hidden);
  embedding_.forward(ctx, input.token_ids, rows, x);
  positions_.forward(step, x);
  for (const Layer& layer : layers_) {
    layer.attention_norm.forward(ctx, x, rows, normed);
    layer.attention.forward(step, normed, x);
    if (&layer == &layers_.back()) rows = keep_logit_rows(step, x, info_.hidden);
    layer.mlp_norm.forward(ctx, x, rows, normed);
    layer.mlp.forward(ctx, normed, rows, x);
  }
  head_.forward(ctx, x, rows, logits);
}

}  // namespace

std::unique_ptr<Model> make_gpt2(Loader& loader) { return std::make_unique<Gpt2>(loader); }

}  // namespace octavo
