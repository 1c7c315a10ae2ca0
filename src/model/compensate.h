// Error-compensated rounding (GPTQ, arXiv 2210.17323): columns are rounded one after another, and what each
// loses is made up for by those that are still to come, as far as the layer's inputs are correlated.
#pragma once

#include <cstdint>
#include <vector>

#include "load/quant/rounding.h"
#include "ops/step.h"

namespace octavo {

/// The inverse of the damped X^T X of one layer, factored, and the order in which its columns are rounded.
class Compensation {
 public:
  /// product: X^T X [k, k]; factors [k], or empty: the columns' smoothing factors, so that x is divided by
  /// them. Columns are taken group by group (0: single ones), the most active group first and within it the
  /// most active column, so that groups stay what files hold and no index of them is needed.
  Compensation(const std::vector<float>& product, const std::vector<float>& factors, int64_t k,
               int64_t group);

  /// w [n, k] -> codes [n, k] and scales [n, k / group]; w is overwritten. The scale of a group is found when
  /// it is reached, of the values as they then are. Parallel over rows.
  void round(OpContext& ctx, const quant::Rounding& rounding, float* w, int64_t n, int8_t* q,
             float* scales) const;

 private:
  void round_rows(const quant::Rounding& rounding, float* w, int64_t n, int8_t* q, float* scales) const;

  int64_t k_, group_;
  std::vector<int32_t> order_;     ///< column that is rounded i-th
  std::vector<float> importance_;  ///< [k]: mean square of each input, by column
  std::vector<float> upper_;       ///< [k, k] in that order: U with U^T U the inverse
};

}  // namespace octavo
