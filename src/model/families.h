// One maker per family; registry.cc maps architecture names to them. Each binds all its tensors and calls
// finish().
#pragma once

#include <memory>

#include "model/loader.h"

namespace octavo {

std::unique_ptr<Model> make_gpt2(Loader& loader);
std::unique_ptr<Model> make_llama(Loader& loader);
std::unique_ptr<Model> make_opt(Loader& loader);
std::unique_ptr<Model> make_qwen2(Loader& loader);
std::unique_ptr<Model> make_qwen3(Loader& loader);

}  // namespace octavo
