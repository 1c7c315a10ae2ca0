// Q8A8 and Q4A8 of every level, bit for bit against its definition (generic/int8_groups.inl): exact integer
// sums of groups of 32, folded in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

constexpr int64_t kGroup = 32;

struct Problem {
  LinearShape shape;
  int64_t m;
  std::vector<int8_t> q;
  std::vector<float> scales, x, bias;
};

enum class Fill { kRandom, kMost, kLeast, kAlternating };

int8_t fill(Fill kind, int64_t i, int bits, std::mt19937& gen) {
  const int most = (1 << (bits - 1)) - 1;
  if (kind == Fill::kRandom) return static_cast<int8_t>(static_cast<int>(gen() % (1u << bits)) - most - 1);
  return static_cast<int8_t>(kind == Fill::kMost || (kind == Fill::kAlternating && i % 2) ? most : -most - 1);
}

Problem problem(int bits, int64_t m, int64_t n, int64_t k, Fill weights, Fill activations) {
  std::mt19937 gen(3);
  std::normal_distribution<float> normal;
  Problem p{{n, k, kGroup}, m, std::vector<int8_t>(n * k), {}, std::vector<float>(m * k), {}};
  p.shape.half_scales = true;
  for (int64_t i = 0; i < n * k; ++i) p.q[i] = fill(weights, i, bits, gen);
  for (int64_t i = 0; i < n * k / kGroup; ++i)  // normal and subnormal float16
    p.scales.push_back(
        std::ldexp(static_cast<float>(gen() % 2048) - 1024.0f, -24 + static_cast<int>(gen() % 6)));
  for (int64_t i = 0; i < m * k; ++i)
    p.x[i] = activations == Fill::kRandom ? normal(gen) * std::ldexp(1.0f, static_cast<int>(i / kGroup % 9))
                                          : static_cast<float>(fill(activations, i, 8, gen));
  for (int64_t i = 0; i < n; ++i) p.bias.push_back(0.37f * static_cast<float>(i % 7) - 1);
  return p;
}

std::vector<float> expected(const Problem& p, float addend) {
  const int64_t groups = p.shape.k / kGroup;
  std::vector<float> y(p.m * p.shape.n);
  for (int64_t r = 0; r < p.m; ++r)
    for (int64_t c = 0; c < p.shape.n; ++c) {
      float result = 0;
      for (int64_t g = 0; g < groups; ++g) {
        const float* x = p.x.data() + r * p.shape.k + g * kGroup;
        float most = 0;
        for (int i = 0; i < kGroup; ++i) most = std::max(most, std::fabs(x[i]));
        const float scale = most > 0 ? most / 127.0f : 1.0f;
        int64_t sum = 0;
        for (int i = 0; i < kGroup; ++i)
          sum += static_cast<int64_t>(std::nearbyint(x[i] / scale)) * p.q[c * p.shape.k + g * kGroup + i];
        result = std::fma(static_cast<float>(sum) * scale, p.scales[c * groups + g], result);
      }
      y[r * p.shape.n + c] = (addend + p.bias[c]) + result;
    }
  return y;
}

class Groups : public testing::TestWithParam<std::tuple<std::string, WeightFormat>> {
 protected:
  int bits() const { return std::get<1>(GetParam()) == WeightFormat::kQ4A8 ? 4 : 8; }
  const LinearKernel& kernel() const {
    return select(std::get<0>(GetParam()).c_str()).linear[static_cast<int>(std::get<1>(GetParam()))];
  }
  std::vector<float> run(const Problem& p, float addend, int64_t rows, int64_t columns) {
    const LinearKernel& kn = kernel();
    const int64_t n = p.shape.n;
    std::vector<std::byte> packed(kn.packed_bytes(p.shape) + 64),
        prepared(kn.prepared_bytes(p.m, p.shape) + 64);
    auto aligned = [](std::vector<std::byte>& v) {
      return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
    };
    for (int64_t n0 = 0; n0 < n; n0 += kn.n_step) {
      WeightRows from;
      from.q = p.q.data() + n0 * p.shape.k;
      from.scales = p.scales.data() + n0 * p.shape.k / kGroup;
      kn.pack(from, n0, std::min(n, n0 + kn.n_step), p.shape, aligned(packed));
    }
    kn.prepare(p.x.data(), p.shape.k, 0, p.m, p.m, p.shape, aligned(prepared));
    std::vector<float> y(p.m * n, addend);
    LinearRun a{
        aligned(packed), aligned(prepared), nullptr, 0, y.data(), n, p.bias.data(), p.shape, p.m, 0, 0, 0, 0,
        addend != 0};
    for (a.n0 = 0; a.n0 < n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(n, a.n0 + columns); a.m0 < p.m; a.m0 = a.m1) {
        a.m1 = std::min(p.m, a.m0 + rows);
        kn.run(a);
      }
    return y;
  }
  void compare(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
};

TEST_P(Groups, ExactOverTheFullRange) {
  constexpr Fill kFills[] = {Fill::kRandom, Fill::kMost, Fill::kLeast, Fill::kAlternating};
  for (int64_t k : {32, 96, 2048})
    for (Fill weights : kFills)
      for (Fill activations : kFills) {
        const Problem p = problem(bits(), 3, 33, k, weights, activations);
        compare(run(p, 0, 1 << 20, 1 << 20), expected(p, 0), "k " + std::to_string(k));
      }
}

TEST_P(Groups, AnyShapeSplitAndAddend) {
  for (int64_t n : {1, 16, 37, 150})
    for (int64_t m : {1, 2, 3, 5, 6, 7, 8, 11, 12, 13, 33}) {
      const Problem p = problem(bits(), m, n, 160, Fill::kRandom, Fill::kRandom);
      const auto want = expected(p, 0.7f);
      const std::string what = "n " + std::to_string(n) + " m " + std::to_string(m);
      compare(run(p, 0.7f, 1 << 20, 1 << 20), want, what);
      compare(run(p, 0.7f, 1, 16), want, what);
      compare(run(p, 0.7f, 3, 80), want, what);
    }
}

/// A column with a scale that is NaN or infinite is not finite in any row; its neighbours are not touched.
TEST_P(Groups, ScaleThatIsNotFinite) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Problem p = problem(bits(), 7, 20, 96, Fill::kRandom, Fill::kRandom);
    const auto want = expected(p, 0);
    p.scales[5 * 3 + 1] = bad;
    const auto got = run(p, 0, 1 << 20, 1 << 20);
    for (int64_t i = 0; i < std::ssize(got); ++i) {
      if (i % 20 == 5)
        EXPECT_FALSE(std::isfinite(got[i])) << "row " << i / 20;
      else
        EXPECT_EQ(got[i], want[i]) << "row " << i / 20 << " column " << i % 20;
    }
  }
}

/// A row with a NaN or an infinity is NaN throughout, its neighbours are not touched; rows of zeros give the
/// bias.
TEST_P(Groups, NotFiniteAndZero) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Problem p = problem(bits(), 3, 20, 96, Fill::kRandom, Fill::kRandom);
    p.x[96 + 40] = bad;
    std::fill_n(p.x.begin() + 192, 96, 0.0f);
    const auto got = run(p, 0, 1 << 20, 1 << 20);
    p.x[96 + 40] = 0;
    const auto want = expected(p, 0);
    for (int64_t i = 0; i < 60; ++i) {
      if (i / 20 == 1)
        EXPECT_TRUE(std::isnan(got[i])) << i;
      else
        EXPECT_EQ(got[i], want[i]) << i;
      if (i / 20 == 2) {
        EXPECT_EQ(got[i], p.bias[i % 20]);
      }
    }
  }
}

/// As many bytes as the file: 34 or 18 for 32 weights (whole panels).
TEST_P(Groups, DoesNotGrow) {
  const LinearKernel& kn = kernel();
  EXPECT_EQ(kn.packed_bytes({64, 2048, kGroup}), 64u * 2048 / 32 * (2 + 4 * bits()));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Groups);  // OCTAVO_TEST_LEVELS may leave none

std::string case_name(const testing::TestParamInfo<std::tuple<std::string, WeightFormat>>& info) {
  return std::get<0>(info.param) + (std::get<1>(info.param) == WeightFormat::kQ8A8 ? "_q8a8" : "_q4a8");
}
INSTANTIATE_TEST_SUITE_P(Levels, Groups,
                         testing::Combine(testing::ValuesIn(test_levels([](const KernelTable& table) {
                                            return table.linear[static_cast<int>(WeightFormat::kQ8A8)];
                                          })),
                                          testing::Values(WeightFormat::kQ8A8, WeightFormat::kQ4A8)),
                         case_name);

}  // namespace
}  // namespace octavo::kernels
