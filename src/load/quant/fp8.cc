// FP8 weights (e4m3fn, Micikevicius et al. 2022, arXiv 2209.05433): the "fp8" method of DeepSeek and Qwen3
// checkpoints, and compressed-tensors' float-quantized. weight F8_E4M3 [n, k]; scales per tensor, per row, or
// per 128 x 128 block.
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "load/quant/scheme.h"

namespace octavo::quant {
namespace {

using nlohmann::json;

/// Raw e4m3 bytes. NaN is refused here, since the kernels read its code as 480 to save a compare a weight.
void read_rows(const HostWeight& weight, int64_t n0, int64_t n1, std::byte*, kernels::WeightRows& rows) {
  rows.q = weight.values.as<int8_t>() + n0 * weight.k;
  bool nan = false;
  for (int64_t i = 0; i < (n1 - n0) * weight.k; ++i) nan |= (rows.q[i] & 0x7f) == 0x7f;
  if (nan) throw Error("tensor '", weight.name, "' holds a NaN, in rows ", n0, " to ", n1 - 1);
}

}  // namespace

void load_fp8(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix, HostWeight& out) {
  out.values = checkpoint.require(prefix + ".weight", {out.n, out.k});
  if (out.values.dtype != DType::kF8E4M3)
    throw Error(checkpoint.origin(), ": tensor '", out.name, "' is not F8_E4M3");
  load_scales(checkpoint, scheme, prefix, out);
  out.element = Element::kE4M3;
  out.reader = read_rows;
}

bool parse_fp8(const json& config, const std::string& origin, const std::string& prefix, QuantScheme& out) {
  JsonFields fields(config, origin + ": quantization_config");
  if (prefix == "lm_head") return false;
  for (const char* key : {"ignored_layers", "modules_to_not_convert"})
    if (const json* kept = fields.find({key}))
      for (const json& pattern : *kept)
        if (pattern.is_string() && names_layer(pattern.get<std::string>(), prefix)) return false;
  out.bits = 8;
  out.load = load_fp8;
  out.format = kernels::WeightFormat::kFP8;
  out.activations = fields.text({"activation_scheme"}, "dynamic") == "static"
                        ? QuantScheme::Activations::kStaticTensor
                        : QuantScheme::Activations::kDynamicToken;
  out.group = -1;
  if (fields.find({"weight_block_size"})) {
    out.group_rows = block_side(fields, "weight_block_size", 0);
    out.group = block_side(fields, "weight_block_size", 1);
    out.scale_name = "weight_scale_inv";
  }
  return true;
}

}  // namespace octavo::quant
