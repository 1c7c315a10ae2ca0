#include "load/host_weight.h"

#include "load/dequantise.h"
#include "load/hf_config.h"

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

}  // namespace

void HostWeight::read_rows(int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows) const {
  OCTAVO_CHECK(0 <= n0 && n0 <= n1 && n1 <= n, name);
  rows = {};
  rows.values = scratch;
  if (transposed)
    read_columns(values, n, k, n0, n1, scratch);
  else if (values.dtype == DType::kF32)
    rows.values = values.as<float>() + n0 * k;
  else
    dequantise_rows(values, n0, n1, scratch);
}

HostWeight linear_weight(Checkpoint& checkpoint, const ModelConfig& config, const std::string& prefix,
                         int64_t n, int64_t k, WeightLayout layout) {
  HostWeight out;
  out.name = prefix + ".weight";
  out.n = n;
  out.k = k;
  out.group = k;
  out.transposed = layout == WeightLayout::kConv1d && !checkpoint.is_gguf();
  if (config.quantization && !checkpoint.is_gguf() && !checkpoint.find(out.name))
    throw Error(checkpoint.origin(), ": '", prefix, "' is quantised by a scheme that is not supported");
  out.values = checkpoint.require(out.name, out.transposed ? Shape{k, n} : Shape{n, k});
  bool block = info(out.values.dtype).block_elements > 1;
  bool plain = (block && !out.transposed) || out.values.dtype == DType::kF32 ||
               out.values.dtype == DType::kF16 || out.values.dtype == DType::kBF16;
  if (!plain)
    throw Error(checkpoint.origin(), ": tensor '", out.name, "' has dtype ", name(out.values.dtype),
                ", expected a float type");
  if (out.values.dtype == DType::kF32) out.format = kernels::WeightFormat::kF32;
  return out;
}

std::vector<float> float_tensor(Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  return dequantise(checkpoint.require(name, shape));
}

}  // namespace octavo
