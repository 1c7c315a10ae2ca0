// W8A8 and W4A8 of every level, bit for bit against the definition (golden README): exact integer sums,
// scales outside them. BL-40: the full operand range must not saturate anywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

struct Weights {
  LinearShape shape;
  int bits;
  std::vector<int8_t> q, zeros;  ///< zeros empty: symmetric
  std::vector<float> scales;

  int64_t groups() const { return shape.k / shape.group; }
  WeightRows rows(int64_t n0) const {
    WeightRows out;
    out.q = q.data() + n0 * shape.k;
    out.scales = scales.data() + n0 * groups();
    out.zeros = zeros.empty() ? nullptr : zeros.data() + n0 * groups();
    return out;
  }
};

enum class Fill { kRandom, kMost, kLeast, kAlternating };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kMost, Fill::kLeast, Fill::kAlternating};

int8_t fill(Fill kind, int64_t i, int bits, std::mt19937& gen) {
  const int most = (1 << (bits - 1)) - 1;
  switch (kind) {
    case Fill::kRandom:
      return static_cast<int8_t>(static_cast<int>(gen() % (1u << bits)) - most - 1);
    case Fill::kMost:
      return static_cast<int8_t>(most);
    case Fill::kLeast:
      return static_cast<int8_t>(-most - 1);
    default:
      return static_cast<int8_t>(i % 2 ? most : -most - 1);
  }
}

Weights weights(int bits, Fill kind, const LinearShape& shape) {
  std::mt19937 gen(1);
  Weights w{shape, bits, std::vector<int8_t>(shape.n * shape.k), {}, {}};
  for (int64_t i = 0; i < shape.n * shape.k; ++i) w.q[i] = fill(kind, i, bits, gen);
  w.zeros.resize(shape.has_zeros ? shape.n * w.groups() : 0);
  for (int8_t& z : w.zeros) z = fill(Fill::kRandom, 0, bits, gen);
  w.scales.resize(shape.n * w.groups());
  for (float& s : w.scales)
    s = shape.half_scales ? std::ldexp(static_cast<float>(gen() % 2048), -static_cast<int>(gen() % 4) - 21)
                          : 0.001f + static_cast<float>(gen() % 1000) * 1e-5f;
  return w;
}

std::vector<float> activations(Fill kind, int64_t m, int64_t k, int least = -127) {
  std::mt19937 gen(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(m * k);
  for (int64_t i = 0; i < m * k; ++i)
    x[i] =
        kind == Fill::kRandom ? normal(gen) : static_cast<float>(std::max<int>(least, fill(kind, i, 8, gen)));
  return x;
}

/// A row of x as integers, zero point taken away; returns its scale.
float quantised(const LinearShape& shape, const float* x, std::vector<int64_t>& out) {
  const auto [low, high] = std::minmax_element(x, x + shape.k);
  const float most = std::max(std::fabs(*low), std::fabs(*high));
  float scale = most > 0 ? most / 127.0f : 1.0f;
  int64_t zero = 0;
  if (shape.x_scale != 0) {
    scale = shape.x_scale;
    zero = shape.x_zero;
  } else if (shape.x_asymmetric && most > 0) {
    scale = (std::max(*high, 0.0f) - std::min(*low, 0.0f)) / 255.0f;
    zero = static_cast<int64_t>(std::nearbyint(-128.0f - std::min(*low, 0.0f) / scale));
  }
  for (int64_t k = 0; k < shape.k; ++k) {
    const double q = std::nearbyint(x[k] / scale) + static_cast<double>(zero);
    out[k] = static_cast<int64_t>(std::clamp(q, -128.0, 127.0)) - zero;
  }
  return scale;
}

std::vector<float> expected(const Weights& w, const std::vector<float>& x, int64_t m, const float* bias,
                            float addend) {
  const LinearShape& s = w.shape;
  std::vector<float> y(m * s.n);
  std::vector<int64_t> xq(s.k);
  for (int64_t r = 0; r < m; ++r) {
    const float x_scale = quantised(s, x.data() + r * s.k, xq);
    for (int64_t c = 0; c < s.n; ++c) {
      float result = 0;
      for (int64_t g = 0; g < w.groups(); ++g) {
        const int64_t at = c * w.groups() + g, zero = w.zeros.empty() ? 0 : w.zeros[at];
        int64_t sum = 0;
        for (int64_t k = g * s.group; k < (g + 1) * s.group; ++k) sum += xq[k] * (w.q[c * s.k + k] - zero);
        result = std::fma(static_cast<float>(sum), w.scales[at], result);
      }
      result *= x_scale;
      y[r * s.n + c] = (addend + (bias ? bias[c] : 0.0f)) + result;
    }
  }
  return y;
}

class Int8Linear : public testing::TestWithParam<std::tuple<std::string, WeightFormat>> {
 protected:
  bool w4() const { return std::get<1>(GetParam()) == WeightFormat::kW4A8; }
  int bits() const { return w4() ? 4 : 8; }
  const LinearKernel& kernel() {
    return select(std::get<0>(GetParam()).c_str()).linear[static_cast<int>(std::get<1>(GetParam()))];
  }

  std::vector<float> run(const Weights& w, const std::vector<float>& x, int64_t m, const float* bias,
                         float addend, int64_t rows = 1 << 20, int64_t columns = 1 << 20) {
    const LinearKernel& kn = kernel();
    const int64_t n = w.shape.n;
    std::vector<std::byte> packed(kn.packed_bytes(w.shape) + 64),
        prepared(kn.prepared_bytes(m, w.shape) + 64);
    auto aligned = [](std::vector<std::byte>& v) {
      return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
    };
    for (int64_t n0 = 0; n0 < n; n0 += kn.n_step)
      kn.pack(w.rows(n0), n0, std::min(n, n0 + kn.n_step), w.shape, aligned(packed));
    kn.prepare(x.data(), w.shape.k, 0, m, m, w.shape, aligned(prepared));
    std::vector<float> y(m * n, addend);
    LinearRun a{aligned(packed), aligned(prepared), nullptr, 0, y.data(), n, bias, w.shape, m, 0, 0, 0, 0,
                addend != 0};
    for (a.n0 = 0; a.n0 < n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(n, a.n0 + columns); a.m0 < m; a.m0 = a.m1) {
        a.m1 = std::min(m, a.m0 + rows);
        kn.run(a);
      }
    return y;
  }
  void compare(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
  void expect_exact(const Weights& w, const std::vector<float>& x, int64_t m, const std::string& what) {
    compare(run(w, x, m, nullptr, 0), expected(w, x, m, nullptr, 0), what);
  }
};

TEST_P(Int8Linear, ExactOverTheFullRange) {
  const std::vector<int64_t> depths =
      w4() ? std::vector<int64_t>{2, 30, 64, 130, 4096} : std::vector<int64_t>{1, 3, 64, 127, 4096};
  for (int64_t k : depths)
    for (Fill wf : kFills)
      for (Fill xf : kFills)
        expect_exact(weights(bits(), wf, {33, k, k}), activations(xf, 3, k), 3, "k " + std::to_string(k));
}

TEST_P(Int8Linear, ExactInGroups) {
  if (!w4()) return;  // W8A8 has no groups
  for (int64_t group : {32, 64, 96, 128})
    for (bool half : {false, true})
      for (bool zeros : {false, true})
        for (Fill wf : kFills)
          for (Fill xf : kFills) {
            LinearShape shape{33, 3 * group, group};
            shape.half_scales = half;
            shape.has_zeros = zeros;
            for (int64_t m : {1, 7})
              expect_exact(weights(4, wf, shape), activations(xf, m, shape.k), m,
                           "group " + std::to_string(group));
          }
}

TEST_P(Int8Linear, AnySplitZerosBiasAndAddend) {
  const int64_t k = w4() ? 192 : 135;
  for (int64_t group : {k, w4() ? int64_t{64} : k})
    for (int64_t n : {1, 16, 37, 150})
      for (int64_t m : {1, 2, 5, 6, 8, 9, 13, 33}) {
        LinearShape shape{n, k, group};
        shape.has_zeros = true;
        const Weights w = weights(bits(), Fill::kRandom, shape);
        const auto x = activations(Fill::kRandom, m, k);
        std::vector<float> bias(n);
        for (int64_t i = 0; i < n; ++i) bias[i] = 0.37f * static_cast<float>(i % 7) - 1;
        const auto want = expected(w, x, m, bias.data(), 0.7f);
        const std::string what = "n " + std::to_string(n) + " m " + std::to_string(m);
        compare(run(w, x, m, bias.data(), 0.7f), want, what);
        compare(run(w, x, m, bias.data(), 0.7f, 1, 16), want, what);
        compare(run(w, x, m, bias.data(), 0.7f, 3, 80), want, what);
      }
}

/// Activations of one fixed scale, some of them far outside its range, and zero points of each row.
TEST_P(Int8Linear, FixedScaleAndRowZeros) {
  for (int32_t zero : {0, 5, -128, 127})
    for (float scale : {0.01f, 0.05f, 1e-12f, 1e6f, 0.0f}) {
      LinearShape shape{37, 96, w4() ? 32 : 96};
      shape.x_scale = scale;
      shape.x_zero = w4() || scale == 0 ? 0 : zero;
      shape.x_asymmetric = scale == 0 && !w4();
      shape.has_zeros = true;
      expect_exact(weights(bits(), Fill::kRandom, shape), activations(Fill::kRandom, 5, 96), 5,
                   "scale " + std::to_string(scale));
      shape.x_scale = scale == 0 ? 0.0f : 1.0f;  // the whole range of stored values
      for (Fill xf : kFills)
        expect_exact(weights(bits(), Fill::kLeast, shape), activations(xf, 5, 96, -128), 5, "whole range");
    }
}

// More rows and more of k than a kernel takes at once.
TEST_P(Int8Linear, BlocksOfRowsAndOfK) {
  LinearShape shape{37, 1120, w4() ? 32 : 1120};
  shape.has_zeros = true;
  const Weights w = weights(bits(), Fill::kRandom, shape);
  const auto x = activations(Fill::kRandom, 210, shape.k);
  const auto want = expected(w, x, 210, nullptr, 0);
  compare(run(w, x, 210, nullptr, 0), want, "at once");
  compare(run(w, x, 210, nullptr, 0, 100), want, "by 100 rows");
}

// BL-42: a row of zeros gives its bias, a NaN or infinity marks its row and no other.
TEST_P(Int8Linear, ZeroAndNonFiniteRows) {
  const Weights w = weights(bits(), Fill::kRandom, {20, 64, 64});
  auto x = activations(Fill::kRandom, 4, 64);
  std::fill(x.begin(), x.begin() + 64, 0.0f);
  x[64 + 5] = std::numeric_limits<float>::quiet_NaN();
  x[2 * 64 + 6] = -std::numeric_limits<float>::infinity();
  const auto y = run(w, x, 4, nullptr, 0);
  const auto alone = run(w, {x.begin() + 3 * 64, x.end()}, 1, nullptr, 0);
  for (int64_t c = 0; c < 20; ++c) {
    EXPECT_EQ(y[c], 0.0f);
    EXPECT_TRUE(std::isnan(y[20 + c]));
    EXPECT_TRUE(std::isnan(y[40 + c]));
    EXPECT_EQ(y[60 + c], alone[c]);
  }
}

std::vector<std::tuple<std::string, WeightFormat>> cases() {
  std::vector<std::tuple<std::string, WeightFormat>> out;
  for (WeightFormat format : {WeightFormat::kW8A8, WeightFormat::kW4A8})
    for (const std::string& isa :
         test_levels([&](const KernelTable& t) { return t.linear[static_cast<int>(format)].run; }))
      out.emplace_back(isa, format);
  return out;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Int8Linear);  // OCTAVO_TEST_LEVELS may leave none
INSTANTIATE_TEST_SUITE_P(Levels, Int8Linear, testing::ValuesIn(cases()), [](const auto& p) {
  return std::get<0>(p.param) + (std::get<1>(p.param) == WeightFormat::kW4A8 ? "_w4a8" : "_w8a8");
});

}  // namespace
}  // namespace octavo::kernels
