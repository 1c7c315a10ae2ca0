// W8A8 of every level, bit for bit against the definition (golden README): exact integer sums, scales in the
// epilogue. BL-40: the full operand range must not saturate anywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/table.h"

namespace octavo::kernels {
namespace {

struct Weights {
  int64_t n, k;
  std::vector<int8_t> q, zeros;  ///< zeros empty: symmetric
  std::vector<float> scales;

  LinearShape shape() const { return {n, k, k}; }
  WeightRows rows(int64_t n0) const {
    WeightRows out;
    out.q = q.data() + n0 * k;
    out.scales = scales.data() + n0;
    out.zeros = zeros.empty() ? nullptr : zeros.data() + n0;
    return out;
  }
};

enum class Fill { kRandom, kMost, kLeast, kAlternating };

int8_t fill(Fill kind, int64_t i, std::mt19937& gen) {
  switch (kind) {
    case Fill::kRandom:
      return static_cast<int8_t>(gen() & 0xff);
    case Fill::kMost:
      return 127;
    case Fill::kLeast:
      return -128;
    default:
      return i % 2 ? 127 : -128;
  }
}

Weights weights(Fill kind, int64_t n, int64_t k, bool zeros) {
  std::mt19937 gen(1);
  Weights w{n, k, std::vector<int8_t>(n * k), std::vector<int8_t>(zeros ? n : 0), std::vector<float>(n)};
  for (int64_t i = 0; i < n * k; ++i) w.q[i] = fill(kind, i, gen);
  for (int8_t& z : w.zeros) z = static_cast<int8_t>(gen() & 0xff);
  for (float& s : w.scales) s = 0.001f + static_cast<float>(gen() % 1000) * 1e-5f;
  return w;
}

std::vector<float> activations(Fill kind, int64_t m, int64_t k) {
  std::mt19937 gen(2);
  std::normal_distribution<float> normal;
  std::vector<float> x(m * k);
  for (int64_t i = 0; i < m * k; ++i)
    x[i] = kind == Fill::kRandom ? normal(gen) : static_cast<float>(std::max<int>(-127, fill(kind, i, gen)));
  return x;
}

std::vector<float> expected(const Weights& w, const std::vector<float>& x, int64_t m, const float* bias,
                            float addend) {
  std::vector<float> y(m * w.n);
  std::vector<int64_t> xq(w.k);
  for (int64_t r = 0; r < m; ++r) {
    float most = 0;
    for (int64_t k = 0; k < w.k; ++k) most = std::max(most, std::fabs(x[r * w.k + k]));
    const float scale = most > 0 ? most / 127.0f : 1.0f;
    for (int64_t k = 0; k < w.k; ++k) xq[k] = static_cast<int64_t>(std::nearbyint(x[r * w.k + k] / scale));
    for (int64_t c = 0; c < w.n; ++c) {
      int64_t sum = 0;
      for (int64_t k = 0; k < w.k; ++k)
        sum += xq[k] * (w.q[c * w.k + k] - (w.zeros.empty() ? 0 : w.zeros[c]));
      float product = static_cast<float>(sum) * w.scales[c];
      product *= scale;
      y[r * w.n + c] = (addend + (bias ? bias[c] : 0.0f)) + product;
    }
  }
  return y;
}

class W8A8 : public testing::TestWithParam<std::string> {
 protected:
  const LinearKernel& kernel() {
    return select(GetParam().c_str()).linear[static_cast<int>(WeightFormat::kW8A8)];
  }

  std::vector<float> run(const Weights& w, const std::vector<float>& x, int64_t m, const float* bias,
                         float addend, int64_t rows = 1 << 20, int64_t columns = 1 << 20) {
    const LinearKernel& kn = kernel();
    std::vector<std::byte> packed(kn.packed_bytes(w.shape()) + 64),
        prepared(kn.prepared_bytes(m, w.shape()) + 64);
    auto aligned = [](std::vector<std::byte>& v) {
      return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(v.data()) + 63) / 64 * 64);
    };
    for (int64_t n0 = 0; n0 < w.n; n0 += kn.n_step)
      kn.pack(w.rows(n0), n0, std::min(w.n, n0 + kn.n_step), w.shape(), aligned(packed));
    kn.prepare(x.data(), w.k, 0, m, m, w.shape(), aligned(prepared));
    std::vector<float> y(m * w.n, addend);
    LinearRun a{aligned(packed), aligned(prepared), nullptr, 0, y.data(), w.n, bias, w.shape(), m, 0, 0, 0, 0,
                addend != 0};
    for (a.n0 = 0; a.n0 < w.n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(w.n, a.n0 + columns); a.m0 < m; a.m0 = a.m1) {
        a.m1 = std::min(m, a.m0 + rows);
        kn.run(a);
      }
    return y;
  }
  void compare(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
};

TEST_P(W8A8, ExactOverTheFullRange) {
  for (int64_t k : {1, 3, 64, 127, 4096})
    for (Fill wf : {Fill::kRandom, Fill::kMost, Fill::kLeast, Fill::kAlternating})
      for (Fill xf : {Fill::kRandom, Fill::kMost, Fill::kLeast, Fill::kAlternating}) {
        const Weights w = weights(wf, 33, k, false);
        const auto x = activations(xf, 3, k);
        compare(run(w, x, 3, nullptr, 0), expected(w, x, 3, nullptr, 0), "k " + std::to_string(k));
      }
}

TEST_P(W8A8, AnySplitZerosBiasAndAddend) {
  for (int64_t n : {1, 16, 37, 150})
    for (int64_t m : {1, 2, 5, 6, 8, 9, 13, 33}) {
      const Weights w = weights(Fill::kRandom, n, 135, true);
      const auto x = activations(Fill::kRandom, m, 135);
      std::vector<float> bias(n);
      for (int64_t i = 0; i < n; ++i) bias[i] = 0.37f * static_cast<float>(i % 7) - 1;
      const auto want = expected(w, x, m, bias.data(), 0.7f);
      const std::string what = "n " + std::to_string(n) + " m " + std::to_string(m);
      compare(run(w, x, m, bias.data(), 0.7f), want, what);
      compare(run(w, x, m, bias.data(), 0.7f, 1, 16), want, what);
      compare(run(w, x, m, bias.data(), 0.7f, 3, 80), want, what);
    }
}

// More rows and more of k than a kernel takes at once.
TEST_P(W8A8, BlocksOfRowsAndOfK) {
  const Weights w = weights(Fill::kRandom, 37, 1100, true);
  const auto x = activations(Fill::kRandom, 210, 1100);
  const auto want = expected(w, x, 210, nullptr, 0);
  compare(run(w, x, 210, nullptr, 0), want, "at once");
  compare(run(w, x, 210, nullptr, 0, 100), want, "by 100 rows");
}

// BL-42: a row of zeros gives its bias, a NaN or infinity marks its row and no other.
TEST_P(W8A8, ZeroAndNonFiniteRows) {
  const Weights w = weights(Fill::kRandom, 20, 64, false);
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

/// Levels that share a kernel with the one below count once.
std::vector<std::string> levels() {
  std::vector<std::string> out;
  const auto run = [](const char* isa) {
    return select(isa).linear[static_cast<int>(WeightFormat::kW8A8)].run;
  };
  for (const char* const* isa = available(); *isa; ++isa)
    if (isa == available() || run(*isa) != run(isa[-1])) out.push_back(*isa);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Levels, W8A8, testing::ValuesIn(levels()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace octavo::kernels
