#include "engine/row_select.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace octavo {

RowSelect::RowSelect(const kernels::SamplingKernels& kernels, int64_t vocab)
    : kernels_(kernels),
      vocab_(vocab),
      maxima_((vocab + kChunk - 1) / kChunk),
      sums_(maxima_.size()),
      order_(maxima_.size()),
      found_(vocab + 1) {}

bool RowSelect::scan(const float* row) {
  row_ = row;
  have_maxima_ = false;
  argmax_ = kernels_.argmax(row, vocab_);
  if (argmax_ < 0) return false;
  max_ = row[argmax_];
  return true;
}

void RowSelect::need_maxima() {
  if (have_maxima_) return;
  for (size_t c = 0; c < maxima_.size(); ++c) maxima_[c] = kernels_.max(row_ + c * kChunk, chunk_len(c));
  have_maxima_ = true;
}

void RowSelect::scaled() {
  have_maxima_ = false;
  max_ = row_[argmax_];
}

double RowSelect::sum_exp() {
  double total = 0;
  for (size_t c = 0; c < maxima_.size(); ++c) {
    sums_[c] = kernels_.sum_exp(row_ + c * kChunk, max_, chunk_len(c));
    total += sums_[c];
  }
  return total;
}

float RowSelect::kth_largest(int64_t k) {
  if (k > vocab_) return -std::numeric_limits<float>::infinity();
  need_maxima();
  float bound = -std::numeric_limits<float>::infinity();
  if (k <= static_cast<int64_t>(maxima_.size())) {
    order_ = maxima_;
    std::nth_element(order_.begin(), order_.begin() + (k - 1), order_.end(), std::greater<>());
    bound = order_[k - 1];
  }
  std::span<Candidate> found = gather(bound);
  auto kth = found.begin() + (k - 1);
  std::nth_element(found.begin(), kth, found.end(), [](auto& a, auto& b) { return a.x > b.x; });
  return kth->x;
}

std::span<Candidate> RowSelect::gather(float threshold) {
  need_maxima();
  int64_t count = 0;
  for (size_t c = 0; c < maxima_.size(); ++c) {
    if (maxima_[c] < threshold) continue;
    int32_t first = static_cast<int32_t>(c * kChunk), last = first + static_cast<int32_t>(chunk_len(c));
    for (int32_t i = first; i < last; ++i) {
      found_[count] = {i, row_[i]};  // written always, kept if it counts: no branch to mispredict
      count += row_[i] >= threshold;
    }
  }
  return {found_.data(), static_cast<size_t>(count)};
}

std::span<const Candidate> RowSelect::top(int64_t k) {
  k = std::min(k, vocab_);
  if (k <= 0) return {};
  std::span<Candidate> found = gather(kth_largest(k));
  std::partial_sort(found.begin(), found.begin() + k, found.end(),
                    [](auto& a, auto& b) { return a.x > b.x || (a.x == b.x && a.id < b.id); });
  return found.first(k);
}

int64_t RowSelect::draw(double mass) const {
  size_t c = 0;
  while (c + 1 < sums_.size() && mass >= sums_[c]) mass -= sums_[c++];
  int64_t last = -1;  // rounding may leave a rest of mass behind the last element: take that one
  for (int64_t i = c * kChunk; i < static_cast<int64_t>(c * kChunk) + chunk_len(c); ++i) {
    double weight = std::exp(row_[i] - max_);
    if (weight <= 0) continue;
    last = i;
    if (mass < weight) return i;
    mass -= weight;
  }
  return last >= 0 ? last : argmax_;
}

}  // namespace octavo
