// The decoder that Llama set the form of: RMS norm, rotary attention, gated MLP, in pre-norm order. Families
// that are this code with other options have a file of their own that names them.
#pragma once

#include <memory>

#include "model/loader.h"

namespace octavo {

struct LlamaOptions {
  bool qkv_bias = false, out_bias = false, mlp_bias = false;
  bool qk_norm = false;  ///< RMS norm over each head of q and k
};

std::unique_ptr<Model> make_llama_like(Loader& loader, const LlamaOptions& options);

}  // namespace octavo
