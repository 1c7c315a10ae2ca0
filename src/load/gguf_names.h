// What GGUF calls things, against Hugging Face: tensor names and config keys, by architecture.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "load/gguf.h"

namespace octavo {

struct GgufArchitecture {
  std::string_view gguf, hf;      ///< "llama", "LlamaForCausalLM"
  std::string_view layer_prefix;  ///< "model.layers."
  bool interleaved_rotary;        ///< rows of q and k are stored in pairs (i, i + half) of a head
};

/// Error listing the known ones.
const GgufArchitecture& gguf_architecture(const GgufFile& file);

/// Hugging Face's name of a tensor; unknown ones (rope_freqs.weight) keep their own.
std::string hf_tensor_name(const GgufArchitecture& architecture, const std::string& name);

}  // namespace octavo
