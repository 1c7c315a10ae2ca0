// compressed-tensors (github.com/vllm-project/compressed-tensors): config_groups with targets, an ignore
// list, and the formats int-quantized, pack-quantized, float-quantized and mxfp4-pack-quantized.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "load/quant/scheme.h"

namespace octavo::quant {
namespace {

using nlohmann::json;

/// Integers as stored, I8 [n, k]: 8-bit weights, or 4-bit values -8..7.
void read_int8(const HostWeight& weight, int64_t n0, int64_t, std::byte*, kernels::WeightRows& rows) {
  rows.q = weight.values.as<int8_t>() + n0 * weight.k;
}

void load_int8(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
               HostWeight& out) {
  out.values = checkpoint.require(prefix + ".weight", {out.n, out.k});
  if (out.values.dtype != DType::kI8) throw Error(checkpoint.origin(), ": tensor '", out.name, "' is not I8");
  load_scales(checkpoint, scheme, prefix, out);
  out.reader = read_int8;
}

/// I32 [n, k/8]: element i of eight in bits 4i, stored value = q + 8.
void read_packed(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
                 kernels::WeightRows& rows) {
  int8_t* q = reinterpret_cast<int8_t*>(scratch);
  rows.q = q;
  const int64_t words = (weight.k + 7) / 8;
  for (int64_t row = n0; row < n1; ++row) {
    const uint32_t* from = weight.values.as<uint32_t>() + row * words;
    for (int64_t i = 0; i < weight.k; ++i) *q++ = static_cast<int8_t>(nibble(from[i / 8], i % 8) - 8);
  }
}

/// weight_zero_point I32 [n/8, groups], packed along n, stored value = zero + 8.
void load_packed_zeros(Checkpoint& checkpoint, const std::string& prefix, HostWeight& out) {
  const int64_t groups = out.k / out.group;
  const TensorView packed =
      packed_words(checkpoint, prefix + ".weight_zero_point", {(out.n + 7) / 8, groups});
  int8_t* zeros = reinterpret_cast<int8_t*>(allocate(out, out.n * groups));
  for (int64_t row = 0; row < out.n; ++row)
    for (int64_t g = 0; g < groups; ++g)
      zeros[row * groups + g] =
          static_cast<int8_t>(nibble(packed.as<uint32_t>()[row / 8 * groups + g], row % 8) - 8);
  out.zeros = {DType::kI8, {out.n, groups}, reinterpret_cast<std::byte*>(zeros)};
}

void load_packed(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                 HostWeight& out) {
  const TensorView shape = checkpoint.require(prefix + ".weight_shape", {2});
  if (shape.dtype == DType::kI64 && (shape.as<int64_t>()[0] != out.n || shape.as<int64_t>()[1] != out.k))
    throw Error(checkpoint.origin(), ": tensor '", prefix, ".weight_shape' says [", shape.as<int64_t>()[0],
                ", ", shape.as<int64_t>()[1], "], expected [", out.n, ", ", out.k, "]");
  out.values = packed_words(checkpoint, prefix + ".weight_packed", {out.n, (out.k + 7) / 8});
  load_scales(checkpoint, scheme, prefix, out);
  if (!scheme.symmetric) load_packed_zeros(checkpoint, prefix, out);
  if (scheme.act_order) load_group_order(checkpoint, prefix + ".weight_g_idx", out);
  out.reader = read_packed;
}

/// U8 [n, k/2]: codes of FP4, the even input in the low nibble.
void read_mxfp4(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
                kernels::WeightRows& rows) {
  int8_t* q = reinterpret_cast<int8_t*>(scratch);
  rows.q = q;
  const auto* from = weight.values.as<uint8_t>() + n0 * weight.k / 2;
  for (int64_t i = 0; i < (n1 - n0) * weight.k / 2; ++i) {
    *q++ = static_cast<int8_t>(from[i] & 15);
    *q++ = static_cast<int8_t>(from[i] >> 4);
  }
}

/// weight_scale U8 [n, k/32]: 2^(e - 127), 255 being NaN (OCP Microscaling Formats 1.0).
void load_mxfp4(Checkpoint& checkpoint, const QuantScheme&, const std::string& prefix, HostWeight& out) {
  const int64_t groups = out.k / out.group;
  out.values = checkpoint.require(prefix + ".weight_packed", {out.n, out.k / 2});
  const TensorView stored = checkpoint.require(prefix + ".weight_scale", {out.n, groups});
  if (out.values.dtype != DType::kU8 || stored.dtype != DType::kU8)
    throw Error(checkpoint.origin(), ": tensors of '", prefix, "' are not U8");
  float* scales = reinterpret_cast<float*>(allocate(out, out.n * groups * sizeof(float)));
  for (int64_t i = 0; i < out.n * groups; ++i) {
    const int exponent = stored.as<uint8_t>()[i];
    if (exponent == 255) throw Error(checkpoint.origin(), ": tensor '", prefix, ".weight_scale' holds a NaN");
    scales[i] = std::ldexp(1.0f, exponent - 127);
  }
  out.scales = {DType::kF32, {out.n, groups}, reinterpret_cast<std::byte*>(scales)};
  out.element = Element::kE2M1;
  out.reader = read_mxfp4;
}

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(origin, ": compressed-tensors ", what, " is not supported");
}

int64_t group_of(const JsonFields& weights, const std::string& origin) {
  const std::string strategy = weights.text({"strategy"}, "tensor");
  if (strategy == "tensor") return -1;
  if (strategy == "channel") return 0;
  if (strategy == "group") return weights.integer({"group_size"}, 0, 1, 1 << 20);
  if (strategy == "block") return block_side(weights, "block_structure", 1);
  refuse(origin, "weight strategy '" + strategy + "'");
}

void parse_activations(const JsonFields& group, const std::string& origin, QuantScheme& out) {
  const json* input = group.find({"input_activations"});
  if (!input) return;
  JsonFields fields(*input, origin + ": input_activations");
  if (fields.integer({"num_bits"}, 8, 1, 64) != 8) refuse(origin, "activations of other than 8 bits");
  const std::string strategy = fields.text({"strategy"}, "token");
  const json* dynamic = fields.find({"dynamic"});
  const bool is_dynamic = dynamic && (!dynamic->is_boolean() || dynamic->get<bool>());
  if (is_dynamic && strategy != "token" && strategy != "group")
    refuse(origin, "dynamic activations per " + strategy);
  if (!is_dynamic && strategy != "tensor") refuse(origin, "static activations per " + strategy);
  out.activations =
      is_dynamic ? QuantScheme::Activations::kDynamicToken : QuantScheme::Activations::kStaticTensor;
  out.activations_symmetric = fields.boolean({"symmetric"}, true);
}

void parse_group(const json& group_json, const std::string& default_format, const std::string& origin,
                 QuantScheme& out) {
  JsonFields group(group_json, origin + ": config_groups");
  const json* weights_json = group.find({"weights"});
  if (!weights_json) refuse(origin, "groups without quantised weights");
  JsonFields weights(*weights_json, origin + ": weights");
  const std::string format = group.text({"format"}, default_format), type = weights.text({"type"}, "int");
  out.bits = static_cast<int>(weights.integer({"num_bits"}, 8, 1, 64));
  out.symmetric = weights.boolean({"symmetric"}, true);
  out.group = group_of(weights, origin);
  out.act_order = weights.text({"actorder"}, "") == "group";
  if (format == "mxfp4-pack-quantized") {  // activations of 4 bits, if it asks for them, stay floats
    if (type != "float" || out.bits != 4 || out.group != 32) refuse(origin, "MXFP4 but in groups of 32");
    out.load = load_mxfp4;
    out.format = kernels::WeightFormat::kMXFP4;
    return;
  }
  parse_activations(group, origin, out);
  const bool float_input = out.activations == QuantScheme::Activations::kFloat;
  if (type == "float" && out.bits == 8) {
    if (weights.find({"block_structure"})) out.group_rows = block_side(weights, "block_structure", 0);
    out.load = load_fp8;
    out.format = kernels::WeightFormat::kFP8;
  } else if (format == "pack-quantized" && out.bits == 4) {
    out.load = load_packed;
    out.format = float_input ? kernels::WeightFormat::kW4A16 : kernels::WeightFormat::kW4A8;
  } else if (format == "int-quantized" && out.symmetric && (out.bits == 8 || out.bits == 4)) {
    out.load = load_int8;
    const bool wide = out.bits == 8;
    out.format = float_input ? (wide ? kernels::WeightFormat::kW8A16 : kernels::WeightFormat::kW4A16)
                             : (wide ? kernels::WeightFormat::kW8A8 : kernels::WeightFormat::kW4A8);
  } else {
    refuse(origin, str("format '", format, "' with ", out.bits, "-bit ", type, " weights"));
  }
}

}  // namespace

bool parse_compressed_tensors(const json& config, const std::string& origin, const std::string& prefix,
                              QuantScheme& out) {
  JsonFields fields(config, origin);
  if (const json* ignore = fields.find({"ignore"}))
    for (const json& pattern : *ignore)
      if (pattern.is_string() && names_layer(pattern.get<std::string>(), prefix)) return false;
  const json* groups = fields.find({"config_groups"});
  if (!groups || !groups->is_object()) throw Error(origin, ": quantization_config has no config_groups");
  for (const json& group : *groups) {
    if (!group.is_object()) throw Error(origin, ": quantization_config.config_groups: not objects");
    const json targets = group.value("targets", json::array());
    const bool named = std::any_of(targets.begin(), targets.end(), [&](const json& target) {
      return target.is_string() && (target == "Linear" || names_layer(target.get<std::string>(), prefix));
    });
    if (!named) continue;
    parse_group(group, fields.text({"format"}, ""), origin, out);
    return true;
  }
  return false;
}

}  // namespace octavo::quant
