// Quantised weights as compressed-tensors folders hold them: what `octavo quantize` writes and vLLM,
// transformers and compressed_tensors.cc read.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "load/quant/rounding.h"
#include "load/safetensors_writer.h"

namespace octavo::quant {

/// One way to write a folder.
struct OutputScheme {
  const char* name;    ///< of --scheme: "w4a8"
  const char* format;  ///< compressed-tensors' name
  Element element;
  int bits;
  bool int8_activations;  ///< or 8-bit floats with kE4M3: quantised per token as the model runs
  bool grouped;           ///< takes --group-size; else one scale for each output
  bool packed;            ///< eight codes in an I32
};

/// Error listing the known ones.
const OutputScheme& output_scheme(const std::string& name);

/// quantization_config of config.json; group 0: one scale for each output.
nlohmann::ordered_json quantization_config(const OutputScheme& scheme, int64_t group,
                                           const std::vector<std::string>& ignore);

/// The tensors of a layer of n outputs and k inputs, in the order that store() fills.
std::vector<OutputTensor> output_tensors(const OutputScheme& scheme, const std::string& layer, int64_t n,
                                         int64_t k, int64_t group);

/// Codes [n, k] and BF16-exact scales [n, k / group] into those tensors' bytes.
void store(const OutputScheme& scheme, int64_t n, int64_t k, int64_t group, const int8_t* q,
           const float* scales, const std::vector<std::byte*>& out);

}  // namespace octavo::quant
