// The blocks that families are written with. A block is a struct of weights bound at load (its bind() names
// tensors to the Loader, which packs them later, so a block must not move between bind() and
// Loader::finish()) and a forward that allocates from the step's workspace only.
//
// Activations are float32 [rows, width], row-major and dense unless an ld says otherwise.
#pragma once

#include <string>
#include <vector>

#include "base/activation.h"
#include "load/hf_config.h"
#include "model/model.h"
#include "ops/linear.h"
#include "ops/rowwise.h"

namespace octavo {

class Loader;

/// A matrix [n, k] of the checkpoint: tensor name + ".weight", and name + ".bias" [n].
struct Matrix {
  std::string name;
  int64_t n = 0;
  bool bias = false;
  bool transposed = false;  ///< stored as [k, n] (GPT-2's Conv1D)
};

/// What every block of one forward pass sees.
struct Step {
  OpContext& ctx;
  const StepInput& input;
  const KvStore& kv;
};

struct Norm {
  NormKind kind = NormKind::kRmsNorm;
  float eps = 0;
  std::vector<float> weight, bias;  ///< [width]; no bias with RMS

  void bind(Loader& loader, const std::string& name, int64_t width);
  /// y may be x.
  void forward(OpContext& ctx, const float* x, int64_t rows, float* y) const;
};

/// Token embedding.
struct Embedding {
  EmbeddingView table{};
  std::vector<std::byte>
      owned;  ///< the rows, where no single one can be read from the checkpoint; else they stay in its file

  void bind(Loader& loader, const std::string& name, int64_t vocab, int64_t width);
  void forward(OpContext& ctx, const int32_t* ids, int64_t tokens, float* y) const {
    embedding(ctx, table, ids, tokens, y);
  }
};

/// Learned positions: adds row position + offset to each token.
struct PositionEmbedding {
  Embedding rows;
  int64_t offset = 0;

  void bind(Loader& loader, const std::string& name, int64_t positions, int64_t width, int64_t first_row = 0);
  void forward(const Step& step, float* x) const;
};

struct AttentionOptions {
  int64_t hidden;  ///< width of x and of the residual
  int heads, kv_heads, head_dim;
  const RopeTable* rope = nullptr;  ///< null: positions come from elsewhere
  int64_t window = 0;               ///< 0: all keys
  bool qk_norm = false;             ///< RMSNorm over each head of q and k, before rope
  float scale = 0;                  ///< 0: head_dim^-0.5
  float softcap = 0;
  std::string q_norm = {}, k_norm = {};  ///< tensor names with qk_norm
  std::string sinks = {};                ///< tensor [heads], or empty
};

/// residual += out(attention(qkv(x))).
struct Attention {
  Linear qkv, out;
  AttentionShape shape{};
  Norm q_norm, k_norm;  ///< empty without qk_norm
  std::vector<float> sinks;
  const RopeTable* rope = nullptr;
  int kv_group = 0, kv_layer = 0;  ///< where its keys live: the model's KV group, and the layer within it

  /// qkv: matrices whose rows are all heads of q, then k, then v.
  void bind(Loader& loader, const AttentionOptions& options, const std::vector<Matrix>& qkv,
            const Matrix& out);
  void forward(const Step& step, const float* x, float* residual) const;
};

/// residual += down(act(gate(x)) * up(x)).
struct GatedMlp {
  Linear gate_up, down;
  Activation act = Activation::kSilu;

  void bind(Loader& loader, Activation act, int64_t hidden, const Matrix& gate, const Matrix& up,
            const Matrix& down);
  void forward(OpContext& ctx, const float* x, int64_t rows, float* residual) const;
};

/// residual += fc2(act(fc1(x))).
struct Mlp {
  Linear fc1, fc2;
  Activation act = Activation::kRelu;

  void bind(Loader& loader, Activation act, int64_t hidden, const Matrix& fc1, const Matrix& fc2);
  void forward(OpContext& ctx, const float* x, int64_t rows, float* residual) const;
};

/// Past the last layer's keys only the rows whose logits are wanted matter: puts those rows of x [T, width]
/// in its place, in the workspace, and returns how many they are.
int64_t keep_logit_rows(const Step& step, float*& x, int64_t width);

/// logits = weights(project(norm(x))). Without weights, `norm` and `project` do nothing.
struct LmHead {
  Norm norm;
  Linear project;  ///< to a narrower embedding (OPT 350m)
  Linear weights;

  struct Names {
    std::string weights, norm = {}, project = {};  ///< empty: there is none
  };
  /// width: of x; head_width: of the embedding.
  void bind(Loader& loader, const Names& names, int64_t width, int64_t head_width);
  /// Changes x.
  void forward(OpContext& ctx, float* x, int64_t rows, float* logits) const;
};

}  // namespace octavo
