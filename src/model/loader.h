// Binds the tensors of a checkpoint to the blocks of a model. One place where a checkpoint's weight becomes a
// Linear.
//
// A family's constructor names every tensor with its shape; nothing is packed yet. finish() then refuses a
// checkpoint that lacks some (all are listed), and packs in parallel. Targets must stay where they are until
// finish().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "load/checkpoint.h"
#include "load/hf_config.h"
#include "load/host_weight.h"
#include "load/quant/online.h"
#include "model/blocks.h"

namespace octavo {

struct LoadOptions {
  /// Execution format of plain (F32, F16, BF16) weights, and of those that no kernel runs as stored: kF32 or
  /// kBF16; with kBF16 weight-only formats may round activations to BF16 (KernelTable::bf16_blocks).
  kernels::WeightFormat dtype = kernels::WeightFormat::kBF16;
  std::optional<OnlineQuantisation> quantisation = {};  ///< of plain weights, as they are packed
  bool decode_weights = false;    ///< weights that a kernel would run as stored become dtype too
  bool int8_blocks = false;       ///< GGUF blocks run in int8 arithmetic where there is a kernel
  bool int8_activations = false;  ///< for weights of 4 bits that run with float ones otherwise
  bool bind_only = false;         ///< nothing is packed: for list_linears()
  int64_t max_model_len =
      0;  ///< positions to be ready for; 0: as the config derives. A position table caps it.
};

class Loader {
 public:
  Loader(OpContext& ctx, const ModelConfig& config, Checkpoint& checkpoint, const LoadOptions& options);

  const ModelConfig& config() const { return config_; }
  OpContext& ctx() { return ctx_; }

  /// The first of these prefixes that has prefix + tensor; the first of all if none has (the missing tensors
  /// then go by it).
  std::string prefix(std::initializer_list<const char*> candidates, const std::string& tensor) const;

  /// `to` = the rows of all parts, [sum of n, k]. `role` names it in ModelInfo::kernels.
  void linear(Linear& to, const std::string& role, int64_t k, const std::vector<Matrix>& parts);
  void vector(std::vector<float>& to, const std::string& name, int64_t n);
  void embedding(Embedding& to, const std::string& name, int64_t rows, int64_t width);
  RopeTable rope_table(const RopeConfig& rope);

  /// A place in the KV cache for the next layer, which sees `window` keys (0: all).
  void kv_layer(int64_t window, int* group, int* index);

  /// Packs; Error if tensors are missing. Call once, last.
  ModelInfo finish();

 private:
  struct Pending {
    Linear* to;
    std::string role;
    int64_t k;
    std::vector<HostWeight> weights;
    std::vector<std::vector<float>> biases;  ///< one per weight, empty without
  };
  Linear pack(Pending& pending);
  static LinearInfo describe(const Pending& pending);
  void copy_embedding(Embedding& to, const HostWeight& weight);
  kernels::WeightFormat execution_format(const HostWeight& weight) const;
  std::vector<int32_t> shared_permutation(const Pending& pending) const;

  OpContext& ctx_;
  const ModelConfig& config_;
  Checkpoint& checkpoint_;
  LoadOptions options_;
  std::vector<Pending> linears_;
  std::vector<std::pair<Embedding*, HostWeight>> embeddings_;
  std::vector<KvGroupSpec> kv_groups_;
};

}  // namespace octavo
