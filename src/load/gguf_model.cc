// A GGUF file as Checkpoint and ModelConfig.
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "load/checkpoint.h"
#include "load/gguf.h"
#include "load/gguf_names.h"
#include "load/hf_config.h"

namespace octavo {
namespace {

using nlohmann::json;

/// The one value of a key that may be given per layer. Error if layers differ.
std::optional<int64_t> same_for_all_layers(const GgufFile& file, const std::string& key) {
  std::vector<int64_t> values = file.integers(key);
  for (int64_t value : values)
    if (value != values[0])
      throw Error(file.origin(), ": ", key, " differs between layers, which is not supported");
  return values.empty() ? std::nullopt : std::optional(values[0]);
}

json rope_parameters(const GgufFile& file, const std::string& arch) {
  std::string key = arch + ".rope.scaling.";
  std::string type = file.text(key + "type").value_or("none");
  double factor = file.number(key + "factor").value_or(file.number(arch + ".rope.scale_linear").value_or(1));
  if (!file.has(key + "type") && factor != 1) type = "linear";
  json out = {{"rope_type", type == "none" ? "default" : type},
              {"rope_theta", file.number(arch + ".rope.freq_base").value_or(10000)}};
  if (type == "none") return out;
  out["factor"] = factor;
  if (auto original = file.integer(key + "original_context_length"))
    out["original_max_position_embeddings"] = *original;
  if (auto fast = file.number(key + "yarn_beta_fast")) out["beta_fast"] = *fast;
  if (auto slow = file.number(key + "yarn_beta_slow")) out["beta_slow"] = *slow;
  // GGUF's factor multiplies what YaRN derives, Hugging Face's replaces it.
  if (auto attention = file.number(key + "attn_factor"); attention && factor > 0)
    out["attention_factor"] = *attention * (0.1 * std::log(factor) + 1);
  return out;
}

/// The end-of-turn ids too: chat models end with eot or eom, plain text with eos (BL-13).
json eos_ids(const GgufFile& file) {
  json out = json::array();
  for (const char* name : {"eos", "eot", "eom"})
    if (auto id = file.integer(str("tokenizer.ggml.", name, "_token_id")); id && *id != 0xffffffff)
      out.push_back(*id);
  return out;
}

/// The metadata as the config.json of the same model would say it, so that both go through one set of checks.
json as_hf_config(const GgufFile& file, bool tied, int64_t vocab) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  std::string arch(architecture.gguf);
  if (file.integer(arch + ".expert_count").value_or(0) > 0)
    throw Error(file.origin(), ": ", arch,
                ".expert_count: mixtures of experts in GGUF files are not supported");
  json out = {{"architectures", {architecture.hf}}, {"vocab_size", vocab}, {"tie_word_embeddings", tied}};
  auto copy = [&](const char* to, const std::string& from, bool needed) {
    std::optional<int64_t> value = same_for_all_layers(file, arch + from);
    if (!value && needed) throw Error(file.origin(), ": metadata key '", arch, from, "' is missing");
    if (value) out[to] = *value;
  };
  copy("hidden_size", ".embedding_length", true);
  copy("num_hidden_layers", ".block_count", true);
  copy("intermediate_size", ".feed_forward_length", true);
  copy("num_attention_heads", ".attention.head_count", true);
  copy("max_position_embeddings", ".context_length", true);
  copy("num_key_value_heads", ".attention.head_count_kv", false);
  copy("head_dim", ".attention.key_length", false);
  if (!out.contains("num_key_value_heads")) out["num_key_value_heads"] = out["num_attention_heads"];
  if (!out.contains("head_dim")) out["head_dim"] = nullptr;  // hidden / heads, whatever the family's default
  const char* eps = arch == "gpt2" ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon";
  if (auto value = file.number(arch + eps)) out["rms_norm_eps"] = *value;
  out["rope_parameters"] = rope_parameters(file, arch);
  out["eos_token_id"] = eos_ids(file);
  for (auto [to, from] : {std::pair{"bos_token_id", "bos"}, std::pair{"pad_token_id", "padding"}}) {
    std::optional<int64_t> id = file.integer(str("tokenizer.ggml.", from, "_token_id"));
    out[to] = id && *id != 0xffffffff ? json(*id) : json(nullptr);
  }
  return out;
}

const GgufFile::Tensor* find_in(const std::vector<GgufFile>& parts, const std::string& name) {
  for (const GgufFile& part : parts)
    if (const GgufFile::Tensor* tensor = part.find_tensor(name)) return tensor;
  return nullptr;
}

void read_rope_freqs(const std::vector<GgufFile>& parts, ModelConfig& out) {
  const GgufFile::Tensor* tensor = find_in(parts, "rope_freqs.weight");
  if (!tensor || out.learned_positions) return;
  auto expected =
      static_cast<int64_t>(static_cast<double>(out.head_dim) * out.rope.partial_rotary_factor) / 2;
  if (tensor->dtype != DType::kF32 || !(tensor->shape == Shape{expected}))
    throw Error(out.origin, ": tensor 'rope_freqs.weight' is not F32 [", expected, "]");
  TensorView view{tensor->dtype, tensor->shape, tensor->data};
  out.rope.freq_factors.resize(expected);
  std::memcpy(out.rope.freq_factors.data(), view.data, expected * sizeof(float));
  for (float factor : out.rope.freq_factors)
    if (!(factor > 0 && factor < 1e6f))
      throw Error(out.origin, ": tensor 'rope_freqs.weight' holds ", factor);
}

/// Heads whose rows are interleaved in this tensor, 0 for none.
int interleaved_heads(const GgufArchitecture& architecture, const GgufFile& meta,
                      const GgufFile::Tensor& tensor) {
  if (!architecture.interleaved_rotary) return 0;
  bool q = tensor.name.find(".attn_q.") != std::string::npos,
       k = tensor.name.find(".attn_k.") != std::string::npos;
  if (!q && !k) return 0;
  std::string key = str(architecture.gguf, ".attention.head_count");
  std::optional<int64_t> heads = same_for_all_layers(meta, key);
  if (k)
    if (auto kv_heads = same_for_all_layers(meta, key + "_kv")) heads = kv_heads;
  int64_t rows = tensor.shape[0];
  // Rows are moved as they are stored: those of a vector are single elements, which blocks do not have.
  if (tensor.shape.rank > 2 || (tensor.shape.rank == 1 && info(tensor.dtype).block_elements > 1))
    throw Error(meta.origin(), ": tensor '", tensor.name, "' is not a matrix or a vector of single values");
  if (!heads || *heads < 1 || *heads > rows || rows % (*heads * 2))
    throw Error(meta.origin(), ": tensor '", tensor.name, "': ", rows, " rows are not whole heads (", key,
                ")");
  return static_cast<int>(*heads);
}

/// The share of a head that is rotated: rope.dimension_count of head_dim.
void set_partial_rotary(const GgufFile& file, const std::string& arch, json& config) {
  std::optional<int64_t> dims = file.integer(arch + ".rope.dimension_count");
  std::optional<int64_t> head = same_for_all_layers(file, arch + ".attention.key_length");
  int64_t hidden = config["hidden_size"], heads = config["num_attention_heads"];
  if (!head && heads > 0) head = hidden / heads;
  if (!dims || !head || *head < 1) return;
  config["rope_parameters"]["partial_rotary_factor"] =
      static_cast<double>(*dims) / static_cast<double>(*head);
}

}  // namespace

ModelConfig load_gguf_config(const std::string& path) {
  std::vector<GgufFile> parts = open_gguf_parts(path);
  return gguf_config(parts);
}

ModelConfig gguf_config(const std::vector<GgufFile>& parts) {
  const GgufFile& meta = parts[0];
  const GgufArchitecture& architecture = gguf_architecture(meta);
  const GgufFile::Tensor* embedding = find_in(parts, "token_embd.weight");
  if (!embedding || embedding->shape.rank != 2)
    throw Error(meta.origin(), ": tensor 'token_embd.weight' is missing or not a matrix");
  json config = as_hf_config(meta, find_in(parts, "output.weight") == nullptr, embedding->shape[0]);
  set_partial_rotary(meta, std::string(architecture.gguf), config);
  if (architecture.gguf == "llama" || architecture.gguf == "qwen3")  // the metadata does not say it
    config["attention_bias"] = find_in(parts, "blk.0.attn_q.bias") != nullptr;
  ModelConfig out = parse_config(config, meta.origin());
  if (architecture.gguf != "gpt2") {
    out.out_bias = find_in(parts, "blk.0.attn_output.bias") != nullptr;
    out.mlp_bias = find_in(parts, "blk.0.ffn_up.bias") != nullptr;
  }
  read_rope_freqs(parts, out);
  return out;
}

Checkpoint gguf_checkpoint(std::vector<GgufFile> files) {
  auto parts = std::make_shared<std::vector<GgufFile>>(std::move(files));
  const GgufFile& meta = parts->at(0);
  const GgufArchitecture& architecture = gguf_architecture(meta);
  Checkpoint out(meta.origin());
  out.set_gguf();
  for (const GgufFile& part : *parts)
    for (const GgufFile::Tensor& tensor : part.tensors()) {
      if (tensor.name == "rope_freqs.weight") continue;  // part of the config
      out.add({{hf_tensor_name(architecture, tensor.name), tensor.dtype, tensor.shape, part.origin()},
               tensor.data,
               interleaved_heads(architecture, meta, tensor)});
    }
  out.keep(parts);
  return out;
}

Checkpoint open_gguf(const std::string& path) { return gguf_checkpoint(open_gguf_parts(path)); }

}  // namespace octavo
