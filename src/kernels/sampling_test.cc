// The sampler's reductions of every ISA against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLengths[] = {1, 2, 5, 8, 15, 16, 17, 33, 100, 1023, 1024, 1025, 5000, 49152, 151937};

template <class F>
void for_isas(F f) {
  for (const std::string& isa : test_levels([](const KernelTable& t) { return t.sampling; })) {
    SCOPED_TRACE(isa);
    f(select(isa.c_str()).sampling);
  }
}

std::vector<float> logits(int64_t n, unsigned seed, float scale = 8) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> out(n);
  for (float& x : out) x = normal(gen);
  return out;
}

TEST(Sampling, ArgmaxIsTheFirstMaximum) {
  for_isas([](const SamplingKernels& k) {
    std::mt19937 gen(3);
    for (int64_t n : kLengths)
      for (int round = 0; round < 8; ++round) {
        auto x = logits(n, round);
        for (int64_t i = 0; i < n; ++i) x[i] = std::round(x[i]);  // many equal ones
        if (round == 7) std::fill(x.begin(), x.end(), -kInf);
        const int64_t expected = std::max_element(x.begin(), x.end()) - x.begin();
        ASSERT_EQ(k.argmax(x.data(), n), expected) << n;
        ASSERT_EQ(k.max(x.data(), n), x[expected]);
        x[gen() % n] = kInf;
        ASSERT_EQ(k.argmax(x.data(), n), std::max_element(x.begin(), x.end()) - x.begin());
        x[gen() % n] = kNan;
        ASSERT_EQ(k.argmax(x.data(), n), -1) << n;
      }
    EXPECT_EQ(k.argmax(nullptr, 0), -1);
    const float zeros[] = {-0.0f, 0.0f};
    EXPECT_EQ(k.argmax(zeros, 2), 0);
  });
}

TEST(Sampling, SumsOfExponentialsEqualDoublePrecision) {
  for_isas([](const SamplingKernels& k) {
    for (int64_t n : kLengths) {
      auto x = logits(n, 5);
      if (n > 4) x[n / 2] = -kInf;  // a banned token
      const float max = *std::max_element(x.begin(), x.end());
      double expected = 0;
      for (float v : x) expected += std::exp(double(v) - max);
      EXPECT_NEAR(k.sum_exp(x.data(), max, n), expected, expected * 2e-6) << n;
      std::vector<float> y(n + 1, 7);
      k.exp_sub(x.data(), max, n, y.data());
      EXPECT_EQ(y[n], 7);
      for (int64_t i = 0; i < n; ++i) {
        if (x[i] == -kInf) {
          ASSERT_EQ(y[i], 0);
          continue;
        }
        const double one = std::exp(double(x[i]) - max);
        ASSERT_NEAR(y[i], one, 2e-7 * one * (1 + std::fabs(x[i] - max)) + 1e-37);
      }
    }
  });
}

TEST(Sampling, CountsElementsAtLeastThreshold) {
  for_isas([](const SamplingKernels& k) {
    for (int64_t n : kLengths) {
      auto x = logits(n, 9);
      for (int64_t i = 0; i < n; ++i) x[i] = std::round(x[i]);
      for (float t : {-100.0f, 0.0f, 3.0f, 100.0f, kInf})
        EXPECT_EQ(k.count_above(x.data(), t, n),
                  std::count_if(x.begin(), x.end(), [t](float v) { return v >= t; }));
    }
  });
}

}  // namespace
}  // namespace octavo::kernels
