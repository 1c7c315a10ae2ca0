#include "load/families.h"

#include "base/error.h"

namespace octavo {
namespace {

/// Families without grouped queries: their q, k and v are each [hidden, hidden], whatever other keys say.
void require_whole_heads(const JsonFields& fields, const ModelConfig& out) {
  if (out.kv_heads != out.heads)
    fields.fail({"num_key_value_heads"}, str(out.heads, " (num_attention_heads)"));
  if (out.head_dim * out.heads != out.hidden)
    fields.fail({"head_dim"}, str("hidden_size ", out.hidden, " / num_attention_heads ", out.heads));
}

void set_opt(const JsonFields& fields, ModelConfig& out) {
  require_whole_heads(fields, out);
  out.norm = NormKind::kLayerNorm;
  out.learned_positions = true;
  out.norm_first = fields.boolean({"do_layer_norm_before"}, true);
  out.final_norm = out.norm_first && !fields.boolean({"_remove_final_layer_norm"}, false);
  out.qkv_bias = out.out_bias = out.mlp_bias = fields.boolean({"enable_bias"}, true);
  if (!fields.boolean({"layer_norm_elementwise_affine"}, true))
    fields.fail({"layer_norm_elementwise_affine"}, "true");
}

void set_gpt2(const JsonFields& fields, ModelConfig& out) {
  require_whole_heads(fields, out);
  out.norm = NormKind::kLayerNorm;
  out.learned_positions = true;
  out.qkv_bias = out.out_bias = out.mlp_bias = true;
  if (fields.boolean({"scale_attn_by_inverse_layer_idx"}, false))
    fields.fail({"scale_attn_by_inverse_layer_idx"}, "false");
  if (!fields.boolean({"scale_attn_weights"}, true)) fields.fail({"scale_attn_weights"}, "true");
}

void set_llama(const JsonFields& fields, ModelConfig& out) {
  out.qkv_bias = out.out_bias = fields.boolean({"attention_bias"}, false);
  out.mlp_bias = fields.boolean({"mlp_bias"}, false);
}

void set_mistral(const JsonFields&, ModelConfig&) {}

void set_qwen2(const JsonFields&, ModelConfig& out) { out.qkv_bias = true; }

void set_qwen3(const JsonFields& fields, ModelConfig& out) {
  out.qk_norm = true;
  out.qkv_bias = out.out_bias = fields.boolean({"attention_bias"}, false);
}

// Columns: hidden layers heads kv_heads head_dim intermediate | vocab max_position | eps theta | activation
// tied | bos eos | window rule, sliding_window
constexpr Family kFamilies[] = {
    {"GPT2LMHeadModel",
     "gpt2",
     {768, 12, 12, 0, 0, 0, 50257, 1024, 1e-5, 10000, "gelu_new", true, 50256, 50256, WindowRule::kNone, 0},
     set_gpt2},
    {"LlamaForCausalLM",
     "llama",
     {4096, 32, 32, 0, 0, 11008, 32000, 2048, 1e-6, 10000, "silu", false, 1, 2, WindowRule::kNone, 0},
     set_llama},
    {"MistralForCausalLM",
     "mistral",
     {4096, 32, 32, 8, 0, 14336, 32000, 131072, 1e-6, 10000, "silu", false, 1, 2, WindowRule::kAll, 4096},
     set_mistral},
    {"OPTForCausalLM",
     "opt",
     {768, 12, 12, 0, 0, 3072, 50272, 2048, 1e-5, 10000, "relu", true, 2, 2, WindowRule::kNone, 0},
     set_opt},
    {"Qwen2ForCausalLM",
     "qwen2",
     {4096, 32, 32, 32, 0, 22016, 151936, 32768, 1e-6, 10000, "silu", false, -1, -1, WindowRule::kFromLayer,
      4096},
     set_qwen2},
    {"Qwen3ForCausalLM",
     "qwen3",
     {4096, 32, 32, 32, 128, 22016, 151936, 32768, 1e-6, 10000, "silu", false, -1, -1, WindowRule::kFromLayer,
      4096},
     set_qwen3},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

}  // namespace octavo
