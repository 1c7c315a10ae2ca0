#include "load/checkpoint.h"
#include "load/hf_config.h"
namespace octavo {
Checkpoint open_gguf(const std::string& file) { throw Error(file, ": GGUF is not read yet"); }
ModelConfig load_gguf_config(const std::string& file) { throw Error(file, ": GGUF is not read yet"); }
}  // namespace octavo
