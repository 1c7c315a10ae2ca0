#include "model/llama.h"

#include "model/families.h"

namespace octavo {
namespace {

struct Layer {
  Norm attention_norm, mlp_norm;
  Attention attention;
  GatedMlp mlp;
};

class Llama final : public Model {
 public:
  Llama(Loader& loader, const LlamaOptions& options);
  const ModelInfo& info() const override { return info_; }
  void forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) override;

 private:
  void bind_layer(Loader& loader, const LlamaOptions& options, const std::string& prefix, int index);

  ModelInfo info_;
  Embedding embedding_;
  RopeTable rope_, rope_sliding_;  // the second only where sliding layers have their own
  std::vector<Layer> layers_;
  LmHead head_;
};

Llama::Llama(Loader& loader, const LlamaOptions& options) {
  const ModelConfig& c = loader.config();
  // Embedding models are published without the prefix.
  const std::string prefix = loader.prefix({"model.", ""}, "embed_tokens.weight");
  embedding_.bind(loader, prefix + "embed_tokens", c.vocab, c.hidden);
  rope_ = loader.rope_table(c.rope);
  if (c.rope_sliding) rope_sliding_ = loader.rope_table(*c.rope_sliding);
  layers_.resize(c.layers);
  for (int i = 0; i < c.layers; ++i) bind_layer(loader, options, str(prefix, "layers.", i, "."), i);
  head_.bind(loader, {c.tie_word_embeddings ? prefix + "embed_tokens" : "lm_head", prefix + "norm"}, c.hidden,
             c.hidden);
  info_ = loader.finish();
}

void Llama::bind_layer(Loader& loader, const LlamaOptions& options, const std::string& prefix, int index) {
  const ModelConfig& c = loader.config();
  Layer& layer = layers_[index];
  const int64_t window = c.window(index), q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const std::string attn = prefix + "self_attn.", mlp = prefix + "mlp.";
  layer.attention_norm.bind(loader, prefix + "input_layernorm", c.hidden);
  layer.attention.bind(loader,
                       {.hidden = c.hidden,
                        .heads = static_cast<int>(c.heads),
                        .kv_heads = static_cast<int>(c.kv_heads),
                        .head_dim = static_cast<int>(c.head_dim),
                        .rope = window && c.rope_sliding ? &rope_sliding_ : &rope_,
                        .window = window,
                        .qk_norm = options.qk_norm,
                        .q_norm = attn + "q_norm",
                        .k_norm = attn + "k_norm"},
                       {{attn + "q_proj", q, options.qkv_bias},
                        {attn + "k_proj", kv, options.qkv_bias},
                        {attn + "v_proj", kv, options.qkv_bias}},
                       {attn + "o_proj", c.hidden, options.out_bias});
  layer.mlp_norm.bind(loader, prefix + "post_attention_layernorm", c.hidden);
  layer.mlp.bind(loader, c.activation, c.hidden, {mlp + "gate_proj", c.intermediate, options.mlp_bias},
                 {mlp + "up_proj", c.intermediate, options.mlp_bias},
                 {mlp + "down_proj", c.hidden, options.mlp_bias});
}

void Llama::forward(OpContext& ctx, const StepInput& input, const KvStore& kv, float* logits) {
  Workspace::Scope scope(ctx.workspace);
  const Step step{ctx, input, kv};
  int64_t rows = input.num_tokens;
  float* x = ctx.workspace.alloc<float>(rows * info_.hidden);
  float* normed = ctx.workspace.alloc<float>(rows * info_.hidden);
  embedding_.forward(ctx, input.token_ids, rows, x);
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

std::unique_ptr<Model> make_llama_like(Loader& loader, const LlamaOptions& options) {
  return std::make_unique<Llama>(loader, options);
}

// Llama 1, 2, 3.x and Mistral: the config says which biases there are and which layers slide.
std::unique_ptr<Model> make_llama(Loader& loader) {
  const ModelConfig& c = loader.config();
  return make_llama_like(loader, {.qkv_bias = c.qkv_bias, .out_bias = c.out_bias, .mlp_bias = c.mlp_bias});
}

}  // namespace octavo
