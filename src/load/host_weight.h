// One linear weight in canonical form, whatever checkpoint scheme it comes from: what packing reads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "kernels/table.h"
#include "load/checkpoint.h"
#include "load/quant/rounding.h"

namespace octavo {

/// y = x W^T with W [n, k]. Views point into the Checkpoint or into `owned`.
struct HostWeight {
  std::string name;  ///< for messages, "model.layers.0.mlp.up_proj.weight"
  /// How it is to be executed: the loader says what the checkpoint means, the caller may lower it to kF32 or
  /// kBF16 where no kernel runs it (read_rows then dequantises). Plain weights are kF32 or kBF16 (F16 becomes
  /// BF16 unless --dtype says otherwise).
  kernels::WeightFormat format = kernels::WeightFormat::kBF16;
  int64_t n = 0, k = 0;
  TensorView values;        ///< [n, k]; plain, GGUF block type, or the scheme's packed integers
  bool transposed = false;  ///< values are [k, n]

  // Quantised schemes: w[i][j] = (q[i][j] - zeros[i][g]) * scales[i][g] with g = j / group.
  /// Fills rows.q for [n0, n1), and rows.scales where there is no `scales`; scratch holds (n1 - n0) * k
  /// floats.
  using Reader = void (*)(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
                          kernels::WeightRows& rows);
  Reader reader = nullptr;
  quant::Element element = quant::Element::kInt8;  ///< what q holds; kInt8 for integers of any width
  TensorView scales;  ///< F32 [n, k / group], or no data where the reader makes them
  TensorView zeros;   ///< I8 [n, k / group], or no data when symmetric
  int64_t group = 0;  ///< inputs that share a scale; k for per-channel
  std::vector<int32_t>
      permutation;          ///< input j of q is input permutation[j] of x (act-order); empty: the identity
  bool fits_kernel = true;  ///< such that a kernel can hold it exactly and quantise its activations
  // Of W8A8 and W4A8: kernels::LinearShape's fields of these names.
  float x_scale = 0;
  int32_t x_zero = 0;
  bool x_asymmetric = false;
  bool half_scales = false;
  std::vector<std::shared_ptr<std::byte[]>> owned;

  /// GGUF's, read as the file has them.
  bool is_blocks() const { return !reader && info(values.dtype).block_elements > 1; }
  /// Quantised rows that a kernel can take as they are.
  bool runs_as_stored() const { return (reader || is_blocks()) && fits_kernel; }
  kernels::LinearShape shape() const;
  /// Output rows [n0, n1) for LinearKernel::pack. `scratch` holds (n1 - n0) * k floats and must outlive
  /// `rows`. Safe from several threads.
  void read_rows(int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows) const;
  /// The same rows of a plain weight as float32: in scratch, or where the file is mapped.
  const float* read_plain(int64_t n0, int64_t n1, float* scratch) const;
};

/// Hugging Face's GPT-2 stores its weights as [in, out] (Conv1D); GGUF files hold them as [out, in] like all
/// others.
enum class WeightLayout { kLinear, kConv1d };

/// The weight `prefix`.weight of n outputs and k inputs: plain F32, F16, BF16 or a GGUF block type. A missing
/// one is noted in the checkpoint (see Checkpoint::require). Quantised checkpoint schemes come here through
/// config.quantization.
HostWeight linear_weight(Checkpoint& checkpoint, const ModelConfig& config, const std::string& prefix,
                         int64_t n, int64_t k, WeightLayout layout = WeightLayout::kLinear);

/// A vector (bias, norm) or table as float32; shape-checked like Checkpoint::require.
std::vector<float> float_tensor(Checkpoint& checkpoint, const std::string& name, const Shape& shape);

}  // namespace octavo
