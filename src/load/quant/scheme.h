// How published checkpoints store quantised linear weights, and how their rows are read into the canonical
// integer form (kernels::WeightRows): one file in this folder per family of schemes, one row in kSchemes
// (scheme.cc) each.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "load/host_weight.h"

namespace octavo {

class JsonFields;

/// What quantization_config says of one layer.
struct QuantScheme {
  enum class Activations : uint8_t { kFloat, kDynamicToken, kStaticTensor };

  /// Reads the layer's tensors into `out` and sets out.reader.
  void (*load)(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix, HostWeight& out);
  kernels::WeightFormat format = kernels::WeightFormat::kW4A16;  ///< how it is meant to be executed
  int bits = 4;
  bool symmetric = true;
  int64_t group = 0;       ///< inputs that share a scale; 0: all of a row; -1: one scale for the tensor
  int64_t group_rows = 1;  ///< outputs that share it (128 for block FP8)
  bool act_order = false;  ///< groups are assigned by g_idx
  Activations activations = Activations::kFloat;
  bool activations_symmetric = true;
  std::string scale_name = "weight_scale";
  bool zeros_less_one = false;  ///< GPTQ's first format stores each zero minus one
};

/// True, and the scheme, if the layer `prefix` is quantised; false if the config leaves it alone. Error
/// naming origin and key for a method, width or strategy that is not supported.
bool find_scheme(const nlohmann::json& config, const std::string& origin, const std::string& prefix,
                 QuantScheme& out);

/// Whether `pattern` of an ignore or target list names the layer: "re:REGEX" (matched from the start, as
/// Python's re.match), the name itself, or its end after a dot. Error for an expression that does not compile
/// or backtracks beyond all reason.
bool names_layer(const std::string& pattern, const std::string& prefix);

namespace quant {

// Parsers of quantization_config, by quant_method; each answers as find_scheme does.
bool parse_compressed_tensors(const nlohmann::json& config, const std::string& origin,
                              const std::string& prefix, QuantScheme& out);
bool parse_awq(const nlohmann::json& config, const std::string& origin, const std::string& prefix,
               QuantScheme& out);
bool parse_gptq(const nlohmann::json& config, const std::string& origin, const std::string& prefix,
                QuantScheme& out);
bool parse_fp8(const nlohmann::json& config, const std::string& origin, const std::string& prefix,
               QuantScheme& out);

/// weight F8_E4M3 [n, k] with scales per tensor, row or block (fp8.cc; compressed-tensors' float-quantized is
/// the same).
void load_fp8(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix, HostWeight& out);

/// Reads `scheme.scale_name` of any of its shapes ([1], [n, 1], [n, k/group], [n/rows, k/group]; any float
/// type), into out.scales as float32 [n, k/group]. Error naming the tensor for NaN, infinity, or a shape that
/// does not fit.
void load_scales(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                 HostWeight& out);

/// The I32 tensor of this shape that holds packed integers. Error if it is missing or of another type: its
/// words are read as they lie.
TensorView packed_words(Checkpoint& checkpoint, const std::string& name, const Shape& shape);

/// Scales as float32. Error naming the tensor for NaN or infinity (BL-42).
std::vector<float> finite_scales(Checkpoint& checkpoint, const std::string& name, const TensorView& stored);

/// The layout that AWQ and GPTQ share: `prefix`.scales [groups, n] and `prefix`.qzeros [groups, n /
/// per_word], into out.scales and out.zeros [n, groups] (no zeros where all are 0). `zero` reads a centred
/// zero: output column `column` of the row of words that it is given.
void load_group_rows(Checkpoint& checkpoint, const std::string& prefix, int64_t per_word,
                     const std::function<int(const uint32_t* words, int64_t column)>& zero, HostWeight& out);

/// out.permutation from g_idx: inputs sorted by group, stable. Error for groups out of range or of uneven
/// size.
void load_group_order(Checkpoint& checkpoint, const std::string& name, HostWeight& out);

/// Outputs (axis 0) or inputs (axis 1) of a block that shares a scale: `key` holds both. Error if it does
/// not.
int64_t block_side(const JsonFields& fields, const char* key, int axis);

/// Memory owned by the weight.
std::byte* allocate(HostWeight& out, size_t bytes);

/// Nibble i (0..7) of a packed word.
inline int nibble(uint32_t word, int64_t i) { return static_cast<int>(word >> (4 * i) & 15u); }

}  // namespace quant
}  // namespace octavo
