// A model: token ids of a step in, logits out. Families are straight-line code over blocks (DESIGN.md,
// section 4); this is the one virtual call, at the border to the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/attention.h"
#include "ops/step.h"

namespace octavo {

/// Layers that share one block table: full attention, or one sliding window.
struct KvGroupSpec {
  int layers;
  int64_t window;  ///< 0: full attention
};

/// A linear layer by the tensors it was made of.
struct LinearInfo {
  struct Part {
    std::string name;  ///< "model.layers.0.self_attn.q_proj"
    int64_t n;
    bool bias, transposed;
  };
  std::string role;      ///< "qkv_proj"
  const Linear* linear;  ///< in the model, by which a LinearObserver knows it
  int64_t k;
  std::vector<Part> parts;
};

struct ModelInfo {
  std::string architecture;  ///< "LlamaForCausalLM"
  int64_t vocab, hidden, layers;
  int64_t max_model_len;  ///< as derived from the config
  int kv_heads, head_dim;
  std::vector<KvGroupSpec> kv_groups;
  size_t weight_bytes;               ///< packed, resident
  std::vector<std::string> kernels;  ///< "qkv_proj x16: bf16 avx2 6x16", for info and the start-up log
  std::vector<std::string> ignored_tensors;  ///< in the checkpoint, not used
  std::vector<LinearInfo> linears;           ///< in the order of the forward pass
};

/// The KV memory as the model sees it. Region i serves layer i of every group; block ids are unique over all
/// groups, so groups share the regions without overlap.
struct KvStore {
  kernels::KvFormat format;
  std::vector<kernels::KvView> regions;  ///< [max over groups of layers]
  LayerKv layer(int index_in_group) const { return {format, regions[index_in_group]}; }
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  /// Runs one step; writes logits [step.num_logit_rows, vocab] in float32.
  virtual void forward(OpContext& ctx, const StepInput& step, const KvStore& kv, float* logits) = 0;
};

}  // namespace octavo
