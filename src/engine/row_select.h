// Selection in one row of logits without sorting it. The row is scanned once in chunks; the chunks' maxima
// then tell which few of them can hold what is searched: the k-th largest chunk maximum is a lower bound of
// the k-th largest element. 150,000 logits: top-k 50 touches 50 of 586 chunks; a std::nth_element over the
// row takes about 50 times as long.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/table.h"

namespace octavo {

struct Candidate {
  int32_t id;
  float x;  ///< logit
};

class RowSelect {
 public:
  RowSelect(const kernels::SamplingKernels& kernels, int64_t vocab);

  /// Looks at `row` [vocab]; it must stay as it is while the other functions are used. False if it holds a
  /// NaN.
  bool scan(const float* row);
  /// The scanned row was multiplied by a positive factor since.
  void scaled();

  float max() const { return max_; }
  int64_t argmax() const { return argmax_; }  ///< first maximum
  /// Sum of exp(x - max), and keeps the chunks' sums for draw().
  double sum_exp();
  /// The k-th largest element (k from 1); -infinity if k exceeds the row.
  float kth_largest(int64_t k);
  /// Elements >= threshold in order of id; valid until the next gather or kth_largest.
  std::span<Candidate> gather(float threshold);
  /// The k largest, best first; of equal ones the lowest id first.
  std::span<const Candidate> top(int64_t k);
  /// The element where the cumulative sum of exp(x - max), in order of id, passes `mass`; after sum_exp().
  int64_t draw(double mass) const;

 private:
  static constexpr int64_t kChunk = 256;
  void need_maxima();
  int64_t chunk_len(size_t c) const { return c + 1 < maxima_.size() ? kChunk : vocab_ - c * kChunk; }

  const kernels::SamplingKernels& kernels_;
  const int64_t vocab_;
  const float* row_ = nullptr;
  float max_ = 0;
  int64_t argmax_ = 0;
  bool have_maxima_ = false;
  std::vector<float> maxima_, sums_, order_;  // [chunks]; order_ is scratch
  std::vector<Candidate> found_;              // [vocab + 1]
};

}  // namespace octavo
