// Qwen 2 and 2.5: Llama with biases on q, k and v; later layers may slide.
#include "model/families.h"
#include "model/llama.h"

namespace octavo {

std::unique_ptr<Model> make_qwen2(Loader& loader) { return make_llama_like(loader, {.qkv_bias = true}); }

}  // namespace octavo
