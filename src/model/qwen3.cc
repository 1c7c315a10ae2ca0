// Qwen 3 (dense): Llama with a norm over each head of q and k, and head_dim free of hidden / heads.
#include "model/families.h"
#include "model/llama.h"

namespace octavo {

std::unique_ptr<Model> make_qwen3(Loader& loader) {
  const ModelConfig& c = loader.config();
  return make_llama_like(loader, {.qkv_bias = c.qkv_bias, .out_bias = c.out_bias, .qk_norm = true});
}

}  // namespace octavo
