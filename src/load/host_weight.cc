#include "load/host_weight.h"

#include <algorithm>
#include <bit>

#include "load/dequantise.h"
#include "load/hf_config.h"
#include "load/quant/int8_activations.h"
#include "load/quant/scheme.h"

namespace octavo {
namespace {

/// Columns [n0, n1) of plain values [k, n] as rows of out.
void read_columns(const TensorView& values, int64_t n, int64_t k, int64_t n0, int64_t n1, float* out) {
  std::vector<float> part(n1 - n0);
  int64_t bytes = info(values.dtype).block_bytes;
  for (int64_t i = 0; i < k; ++i) {
    TensorView slice{values.dtype, {n1 - n0}, values.data + (i * n + n0) * bytes};
    dequantise_rows(slice, 0, 1, part.data());
    for (int64_t j = 0; j < n1 - n0; ++j) out[j * k + i] = part[j];
  }
}

/// decoded() of all codes of an element type. Integers wider than 4 bits go by kInt8.
struct Decoder {
  float values[256];
  explicit Decoder(quant::Element element) {
    for (int i = 0; i < 256; ++i) values[i] = quant::decoded(element, static_cast<int8_t>(i));
  }
};

/// (q - zero) * scale of quantised rows, in float32, inputs back in their own order.
void dequantise_quantised(const HostWeight& weight, int64_t n0, int64_t n1, float* out) {
  const Decoder decoder(weight.element);
  std::vector<float> scratch(weight.k);
  const int64_t groups = weight.k / weight.group;
  for (int64_t row = n0; row < n1; ++row, out += weight.k) {
    kernels::WeightRows rows;
    weight.reader(weight, row, row + 1, reinterpret_cast<std::byte*>(scratch.data()), rows);
    const float* scales = weight.scales.data ? weight.scales.as<float>() + row * groups : rows.scales;
    for (int64_t i = 0; i < weight.k; ++i) {
      const int64_t g = i / weight.group, k = weight.permutation.empty() ? i : weight.permutation[i];
      const int zero = weight.zeros.data ? weight.zeros.as<int8_t>()[row * groups + g] : 0;
      out[k] = (decoder.values[static_cast<uint8_t>(rows.q[i])] - static_cast<float>(zero)) * scales[g];
    }
  }
}

/// The execution formats of GGUF's block types; a type that is not here is decoded.
struct BlockFormat {
  DType dtype;
  kernels::WeightFormat format;
};
constexpr BlockFormat kBlockFormats[] = {
    {DType::kQ4_0, kernels::WeightFormat::kQ4_0},     {DType::kQ4_1, kernels::WeightFormat::kQ4_1},
    {DType::kQ5_0, kernels::WeightFormat::kQ5_0},     {DType::kQ5_1, kernels::WeightFormat::kQ5_1},
    {DType::kQ8_0, kernels::WeightFormat::kQ8_0},     {DType::kQ2_K, kernels::WeightFormat::kQ2_K},
    {DType::kQ3_K, kernels::WeightFormat::kQ3_K},     {DType::kQ4_K, kernels::WeightFormat::kQ4_K},
    {DType::kQ5_K, kernels::WeightFormat::kQ5_K},     {DType::kQ6_K, kernels::WeightFormat::kQ6_K},
    {DType::kIQ4_NL, kernels::WeightFormat::kIQ4_NL}, {DType::kMXFP4, kernels::WeightFormat::kMXFP4},
};

/// Whether the weight-only kernels hold the layer exactly (kernels/generic/panel_blocks.inl): groups of whole
/// chunks of 32, and for integers scales of float16's or bfloat16's precision.
bool fits_block_kernel(const HostWeight& weight) {
  using kernels::WeightFormat;
  if (weight.group % 32) return false;
  if (weight.format == WeightFormat::kFP8) return true;
  const float* scales = weight.scales.as<float>();
  return std::all_of(scales, scales + weight.scales.shape.elements(),
                     [](float scale) { return (std::bit_cast<uint32_t>(scale) & 0x1fffu) == 0; });
}

bool is_float(kernels::WeightFormat format) {
  return format == kernels::WeightFormat::kF32 || format == kernels::WeightFormat::kBF16;
}

/// Embeddings and the layers that a config forgot to ignore are stored as plain floats: what the file holds
/// decides.
bool is_plain(const TensorInfo* stored) {
  return stored && (stored->dtype == DType::kF32 || stored->dtype == DType::kF16 ||
                    stored->dtype == DType::kBF16 || info(stored->dtype).block_elements > 1);
}

/// One scale, and one zero point if any, for all activations of the layer.
void load_fixed_activations(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                            HostWeight& out) {
  const std::string scale_name = prefix + ".input_scale", zero_name = prefix + ".input_zero_point";
  const TensorView scale = checkpoint.get(scale_name);
  const std::vector<float> scales = quant::finite_scales(checkpoint, scale_name, scale);
  if (scales.size() != 1 || !(scales[0] > 0))
    throw Error(checkpoint.origin(), ": tensor '", scale_name, "' is not one positive scale");
  out.x_scale = scales[0];
  if (scheme.activations_symmetric || !checkpoint.find(zero_name)) return;
  const TensorView zero = checkpoint.get(zero_name);
  if (zero.dtype != DType::kI8 || zero.shape.elements() != 1)
    throw Error(checkpoint.origin(), ": tensor '", zero_name, "' is not one I8");
  out.x_zero = *zero.as<int8_t>();  // NOLINT(bugprone-signed-char-misuse): a number, not a character
}

/// How the layer's activations are quantised, where they are int8. (Weight-only kernels need no scales of
/// them: those of an FP8 checkpoint are only known.)
void load_activations(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                      HostWeight& out) {
  using Activations = QuantScheme::Activations;
  if (out.format == kernels::WeightFormat::kW8A8 || out.format == kernels::WeightFormat::kW4A8) {
    if (scheme.activations == Activations::kStaticTensor)
      load_fixed_activations(checkpoint, scheme, prefix, out);
    else
      out.x_asymmetric = !scheme.activations_symmetric;
    note_half_scales(out);
    if (out.format == kernels::WeightFormat::kW4A8)  // its kernels have no zero points of activations
      out.fits_kernel = out.x_zero == 0 && !out.x_asymmetric;
  }
  for (const char* name : {".input_scale", ".input_zero_point"})
    if (checkpoint.find(prefix + name)) checkpoint.get(prefix + name);
}

HostWeight quantised_weight(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                            int64_t n, int64_t k) {
  HostWeight out;
  out.name = prefix + ".weight";
  out.n = n;
  out.k = k;
  out.format = scheme.format;
  out.group = scheme.group > 0 ? scheme.group : k;
  if (k % out.group || n % 8)
    throw Error(checkpoint.origin(), ": '", prefix, "' of ", n, " x ", k,
                " cannot be quantised in groups of ", out.group);
  scheme.load(checkpoint, scheme, prefix, out);
  if (static_cast<int>(out.format) >= kernels::kFirstBlockFormat) out.fits_kernel = fits_block_kernel(out);
  load_activations(checkpoint, scheme, prefix, out);
  return out;
}

}  // namespace

kernels::LinearShape HostWeight::shape() const {
  return {n, k, group, x_scale, x_zero, x_asymmetric, half_scales, zeros.data != nullptr};
}

void HostWeight::read_rows(int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows) const {
  OCTAVO_CHECK(0 <= n0 && n0 <= n1 && n1 <= n, name);
  rows = {};
  if (is_blocks() && !is_float(format)) {
    rows.block_row_bytes = values.row_bytes();
    rows.blocks = values.data + n0 * rows.block_row_bytes;
    return;
  }
  if (reader && !is_float(format)) {
    reader(*this, n0, n1, reinterpret_cast<std::byte*>(scratch), rows);
    if (scales.data) rows.scales = scales.as<float>() + n0 * (k / group);
    if (zeros.data) rows.zeros = zeros.as<int8_t>() + n0 * (k / group);
    return;
  }
  rows.values = scratch;
  if (reader)
    dequantise_quantised(*this, n0, n1, scratch);
  else
    rows.values = read_plain(n0, n1, scratch);
}

const float* HostWeight::read_plain(int64_t n0, int64_t n1, float* scratch) const {
  if (transposed)
    read_columns(values, n, k, n0, n1, scratch);
  else if (values.dtype == DType::kF32)
    return values.as<float>() + n0 * k;
  else
    dequantise_rows(values, n0, n1, scratch);
  return scratch;
}

HostWeight linear_weight(Checkpoint& checkpoint, const ModelConfig& config, const std::string& prefix,
                         int64_t n, int64_t k, WeightLayout layout) {
  QuantScheme scheme;
  if (config.quantization && !is_plain(checkpoint.find(prefix + ".weight")) &&
      find_scheme(*config.quantization, config.origin, prefix, scheme))
    return quantised_weight(checkpoint, scheme, prefix, n, k);
  HostWeight out;
  out.name = prefix + ".weight";
  out.n = n;
  out.k = k;
  out.group = k;
  out.transposed = layout == WeightLayout::kConv1d && !checkpoint.is_gguf();
  out.values = checkpoint.require(out.name, out.transposed ? Shape{k, n} : Shape{n, k});
  bool block = info(out.values.dtype).block_elements > 1;
  bool plain = (block && !out.transposed) || out.values.dtype == DType::kF32 ||
               out.values.dtype == DType::kF16 || out.values.dtype == DType::kBF16;
  if (!plain)
    throw Error(checkpoint.origin(), ": tensor '", out.name, "' has dtype ", name(out.values.dtype),
                ", expected a float type");
  if (out.values.dtype == DType::kF32) out.format = kernels::WeightFormat::kF32;
  for (const BlockFormat& row : kBlockFormats)
    if (row.dtype == out.values.dtype) out.format = row.format;
  return out;
}

std::vector<float> float_tensor(Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  const TensorView stored = checkpoint.require(name, shape);
  if (!holds_floats(stored.dtype))
    throw Error(checkpoint.origin(), ": tensor '", name, "' has dtype ", octavo::name(stored.dtype),
                ", expected a float type");
  return dequantise(stored);
}

}  // namespace octavo
