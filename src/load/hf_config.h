// A model's config as one normalised struct, from config.json as published (all key variants and each
// family's defaults) or from GGUF metadata.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/activation.h"
#include "base/dtype.h"
#include "load/rope_config.h"

namespace octavo {

enum class NormKind { kLayerNorm, kRmsNorm };
enum class LayerKind { kFull, kSliding };

/// Sampling defaults of generation_config.json; absent where the file does not say.
struct GenerationDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k, max_new_tokens;
  std::vector<int32_t> eos_ids;
};

struct ModelConfig {
  std::string architecture;  ///< a supported one, e.g. "LlamaForCausalLM"
  std::string model_type;    ///< e.g. "llama"
  std::string origin;        ///< file, for messages

  // Sizes: all > 0 and bounded, so that products of any three fit an int64.
  int64_t hidden = 0, layers = 0, vocab = 0;
  int64_t heads = 0, kv_heads = 0;  ///< heads % kv_heads == 0
  int64_t head_dim = 0;             ///< even where there is a rotary embedding
  int64_t intermediate = 0;         ///< width of the MLP
  int64_t max_position_embeddings = 0;
  int64_t word_embed_proj_dim = 0;  ///< width of the embedding table; differs from hidden only in some OPTs

  NormKind norm = NormKind::kRmsNorm;
  double norm_eps = 1e-6;
  Activation activation = Activation::kSilu;
  bool norm_first = true;  ///< do_layer_norm_before
  bool final_norm = true;  ///< a norm after the last layer
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;  ///< RMSNorm over each head of q and k
  bool tie_word_embeddings = false;

  bool learned_positions = false;  ///< a position table instead of rope
  RopeConfig rope;
  std::optional<RopeConfig> rope_sliding;  ///< of sliding layers, where they have their own
  int64_t sliding_window = 0;              ///< keys a sliding layer sees, itself included; 0: none
  std::vector<LayerKind> layer_kinds;      ///< one per layer
  /// The layer's window, 0 for full attention.
  int64_t window(int layer) const { return layer_kinds[layer] == LayerKind::kSliding ? sliding_window : 0; }

  std::optional<DType> dtype;  ///< that the config names: F32, F16 or BF16
  int64_t max_model_len = 0;   ///< derived as by vLLM: see derived_max_length

  std::vector<int32_t> eos_ids;  ///< of config.json, or GGUF's eos, eot and eom
  std::optional<int32_t> bos_id, pad_id;
  std::vector<int32_t>
      tokenizer_eos_ids;            ///< tokenizer_config.json's eos_token, where that file gives its id
  std::string tokenizer_eos_token;  ///< its text; the tokenizer knows the id
  GenerationDefaults generation;

  std::shared_ptr<const nlohmann::json> quantization;  ///< quantization_config as published, or null
  std::shared_ptr<const nlohmann::json> raw;           ///< config.json, text_config merged into it
};

/// config.json and, where there, generation_config.json and tokenizer_config.json of a model folder. Error
/// naming file and key on anything that is unknown, contradictory or out of range.
ModelConfig load_config(const std::string& folder);

/// The same from a GGUF file (the first, of a split set).
ModelConfig load_gguf_config(const std::string& file);

/// Either: a folder or a *.gguf file.
ModelConfig load_model_config(const std::string& path);

/// The parts, for tests and fuzzing.
ModelConfig parse_config(const nlohmann::json& config, const std::string& origin);
void parse_generation_config(const nlohmann::json& config, const std::string& origin, ModelConfig& out);
void parse_tokenizer_config(const nlohmann::json& config, const std::string& origin, ModelConfig& out);

/// Ids that end a generation unless ignore_eos: the union of all the eos ids of generation_config, config and
/// tokenizer (each of them alone is incomplete in published models), sorted.
std::vector<int32_t> stop_ids(const ModelConfig& config);

/// "GPT2LMHeadModel, LlamaForCausalLM, ..."
std::string supported_architectures();

}  // namespace octavo
