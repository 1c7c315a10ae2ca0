#include "load/gguf_names.h"

#include "base/error.h"

namespace octavo {
namespace {

struct NameRow {
  std::string_view gguf, hf;  ///< without the trailing .weight or .bias
};

constexpr GgufArchitecture kArchitectures[] = {{"llama", "LlamaForCausalLM", "model.layers.", true},
                                               {"qwen2", "Qwen2ForCausalLM", "model.layers.", false},
                                               {"qwen3", "Qwen3ForCausalLM", "model.layers.", false},
                                               {"gpt2", "GPT2LMHeadModel", "transformer.h.", false}};
constexpr NameRow kDecoder[] = {{"token_embd", "model.embed_tokens"},
                                {"output_norm", "model.norm"},
                                {"output", "lm_head"},
                                {"attn_norm", "input_layernorm"},
                                {"ffn_norm", "post_attention_layernorm"},
                                {"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},
                                {"attn_output", "self_attn.o_proj"},
                                {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"},
                                {"ffn_gate", "mlp.gate_proj"},
                                {"ffn_up", "mlp.up_proj"},
                                {"ffn_down", "mlp.down_proj"}};
constexpr NameRow kGpt2[] = {{"token_embd", "transformer.wte"},
                             {"position_embd", "transformer.wpe"},
                             {"output_norm", "transformer.ln_f"},
                             {"output", "lm_head"},
                             {"attn_norm", "ln_1"},
                             {"ffn_norm", "ln_2"},
                             {"attn_qkv", "attn.c_attn"},
                             {"attn_output", "attn.c_proj"},
                             {"ffn_up", "mlp.c_fc"},
                             {"ffn_down", "mlp.c_proj"}};

std::span<const NameRow> rows_of(const GgufArchitecture& architecture) {
  if (architecture.gguf == "gpt2") return kGpt2;
  return kDecoder;
}

}  // namespace

const GgufArchitecture& gguf_architecture(const GgufFile& file) {
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.gguf == file.architecture()) return row;
    known += str(known.empty() ? "" : ", ", row.gguf);
  }
  throw Error(file.origin(), ": general.architecture '", file.architecture().substr(0, 60),
              "' is not supported; supported: ", known);
}

std::string hf_tensor_name(const GgufArchitecture& architecture, const std::string& name) {
  size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  std::string stem = name.substr(0, dot), kind = name.substr(dot), layer;
  if (stem.starts_with("blk.")) {  // blk.3.attn_q
    size_t next = stem.find('.', 4);
    if (next == std::string::npos) return name;
    layer = str(architecture.layer_prefix, stem.substr(4, next - 4), ".");
    stem = stem.substr(next + 1);
  }
  for (const NameRow& row : rows_of(architecture))
    if (row.gguf == stem) return str(layer, row.hf, kind);
  return name;
}

}  // namespace octavo
