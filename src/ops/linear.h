// Linear layers over prepacked weights: the only entry to the linear kernels.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ops/step.h"

namespace octavo {

/// Memory for packed weights: huge pages where they help, first touched by the worker that will read it.
class PackedBuffer {
 public:
  PackedBuffer() = default;
  explicit PackedBuffer(size_t bytes);
  ~PackedBuffer();
  PackedBuffer(PackedBuffer&& other) noexcept;
  PackedBuffer& operator=(PackedBuffer&& other) noexcept;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// One part of a fused linear (q of qkv, gate of gate-up): n output rows, produced on demand by worker
/// threads.
struct LinearPart {
  kernels::WeightFormat format = kernels::WeightFormat::kBF16;
  /// n: rows of this part. group 0 means k.
  kernels::LinearShape shape{};
  /// Fills `rows` for output rows [n0, n1) of this part; may use `scratch` [(n1 - n0) * k floats]. Called
  /// concurrently.
  std::function<void(int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows)> rows;
  std::vector<float> bias;     ///< [n] or empty
  bool bf16_products = false;  ///< weight-only formats may multiply BF16 (KernelTable::bf16_blocks)
};

/// Output rows [first, first + shape.n) of a Linear, all of one format.
struct LinearSegment {
  int64_t first = 0;
  kernels::WeightFormat format = kernels::WeightFormat::kBF16;
  kernels::LinearShape shape{};
  const kernels::LinearKernel* kernel = nullptr;
  PackedBuffer packed;
};

/// Packed weights of one (possibly fused) linear layer. Immutable after construction.
struct Linear {
  int64_t n = 0, k = 0;                 ///< n: outputs of all parts together, in order
  std::vector<LinearSegment> segments;  ///< one, unless a file stores fused parts in different formats
  std::vector<float> bias;              ///< [n] or empty
  std::vector<int32_t> permutation;     ///< input j of the weights is x[permutation[j]] (act-order); or empty

  /// Packs in parallel over the Team. Neighbours of one format and shape share a segment. Error if this
  /// machine has no kernel for a format.
  static Linear build(OpContext& ctx, const std::vector<LinearPart>& parts,
                      std::vector<int32_t> permutation = {});
  size_t bytes() const;  ///< resident, with the biases
};

/// y[m, n] = x[m, k] W^T + bias, or y += ... with accumulate (the residual add of o_proj and down_proj,
/// fused). Never forks for less work than a fork costs.
void linear(OpContext& ctx, const Linear& weights, const float* x, int64_t ldx, int64_t m, float* y,
            int64_t ldy, bool accumulate = false);

}  // namespace octavo
