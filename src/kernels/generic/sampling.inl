// Reductions of the sampler over Vec; the vocabulary is read once by each.
#pragma once

#include "kernels/generic/exp.inl"

constexpr float kMinusInfinity = -__builtin_inff();

/// Blocks, so that one pass finds both the maximum and (in the block that raised it) its first place.
int64_t argmax(const float* x, int64_t n) {
  constexpr int64_t kBlock = 1024;
  Mask nan = unordered(zero(), zero());
  float best = kMinusInfinity;
  int64_t best_block = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    Vec a = set1(kMinusInfinity), b = a;
    int64_t i = begin;
    for (; i + 2 * kLanes <= end; i += 2 * kLanes) {
      const Vec u = load(x + i), v = load(x + i + kLanes);
      nan = nan | unordered(u, v);
      a = max(a, u);
      b = max(b, v);
    }
    float highest = reduce_max(max(a, b));
    for (; i < end; ++i) {
      if (x[i] != x[i]) return -1;
      if (x[i] > highest) highest = x[i];
    }
    if (highest > best) {
      best = highest;
      best_block = begin;
    }
  }
  if (bits(nan)) return -1;
  for (int64_t i = best_block; i < n; ++i)
    if (x[i] == best) return i;
  return n ? 0 : -1;
}

float max_of(const float* x, int64_t n) {
  Vec a = set1(kMinusInfinity), b = a;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = max(a, load(x + i));
    b = max(b, load(x + i + kLanes));
  }
  float best = reduce_max(max(a, b));
  for (; i < n; ++i)
    if (x[i] > best) best = x[i];
  return best;
}

float sum_exp(const float* x, float max, int64_t n) {
  const Vec m = set1(max);
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int u = 0; u < 4; ++u) sum[u] = sum[u] + exp(load(x + i + u * kLanes) - m);
  for (; i + kLanes <= n; i += kLanes) sum[0] = sum[0] + exp(load(x + i) - m);
  if (const int rest = static_cast<int>(n - i); rest)
    sum[1] = sum[1] + keep(lanes_between(0, rest), exp(load_first(x + i, rest) - m));
  return reduce_add((sum[0] + sum[2]) + (sum[1] + sum[3]));
}

void exp_sub(const float* x, float max, int64_t n, float* y) {
  const Vec m = set1(max);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, exp(load(x + i) - m));
  if (const int rest = static_cast<int>(n - i); rest)
    store_first(y + i, exp(load_first(x + i, rest) - m), rest);
}

int64_t count_above(const float* x, float threshold, int64_t n) {
  const Vec t = set1(threshold);
  int64_t count = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) count += __builtin_popcount(bits(load(x + i) >= t));
  for (; i < n; ++i) count += x[i] >= threshold;
  return count;
}

constexpr SamplingKernels kSampling = {
    .argmax = argmax, .max = max_of, .sum_exp = sum_exp, .exp_sub = exp_sub, .count_above = count_above};
