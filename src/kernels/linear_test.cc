// Every ISA level that this machine has, against the scalar table and against itself under other splits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

std::vector<float> random(int64_t count, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(gen);
  return out;
}

/// One weight packed for one kernel, and runs of it into a buffer with guard columns.
struct Case {
  const LinearKernel& kernel;
  int64_t n, k;
  std::vector<std::byte> packed;
  std::vector<float> bias;

  Case(const LinearKernel& kernel_in, const std::vector<float>& w, int64_t n_in, int64_t k_in)
      : kernel(kernel_in), n(n_in), k(k_in), packed(kernel.packed_bytes({n, k, k}) + 64) {
    WeightRows rows;
    for (int64_t n0 = 0; n0 < n; n0 += 2 * kernel.n_step) {
      rows.values = w.data() + n0 * k;
      kernel.pack(rows, n0, std::min(n, n0 + 2 * kernel.n_step), {n, k, k}, packed_data());
    }
  }
  void* packed_data() {
    return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(packed.data()) + 63) / 64 * 64);
  }

  /// Computes y = x W^T in pieces of at most `rows` rows and `columns` columns; y keeps its stride n + 3.
  void run(const std::vector<float>& x, int64_t ldx, int64_t m, std::vector<float>& y, bool accumulate,
           int64_t rows = 1 << 20, int64_t columns = 1 << 20) {
    std::vector<std::byte> prepared(kernel.prepared_bytes(m, {n, k, k}));
    if (!prepared.empty()) kernel.prepare(x.data(), ldx, 0, m, m, {n, k, k}, prepared.data());
    LinearRun a{packed_data(),
                prepared.data(),
                x.data(),
                ldx,
                y.data(),
                n + 3,
                bias.empty() ? nullptr : bias.data(),
                {n, k, k},
                m,
                0,
                0,
                0,
                0,
                accumulate};
    for (a.n0 = 0; a.n0 < n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(n, a.n0 + columns); a.m0 < m; a.m0 = a.m1) {
        a.m1 = std::min(m, a.m0 + rows);
        kernel.run(a);
      }
  }
};

class LinearIsa : public testing::TestWithParam<std::tuple<std::string, WeightFormat>> {
 protected:
  const LinearKernel& kernel() { return select(std::get<0>(GetParam()).c_str()).linear[format()]; }
  const LinearKernel& reference() { return select("scalar").linear[format()]; }
  int format() { return static_cast<int>(std::get<1>(GetParam())); }
};

TEST_P(LinearIsa, EqualsScalar) {
  const int64_t shapes[][2] = {{1, 1},    {16, 1},    {17, 2},   {5, 3},    {64, 7},
                               {100, 64}, {257, 129}, {33, 513}, {80, 1100}};
  for (auto [n, k] : shapes) {
    const auto w = random(n * k, 1), bias = random(n, 3);
    Case fast(kernel(), w, n, k), slow(reference(), w, n, k);
    for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 16, 25, 40}) {
      auto x = random(m * (k + 5), 2);
      // A kernel that prepares BF16 activations rounds them: compare on values that are BF16 already.
      if (kernel().prepared_bytes(m, {n, k, k}) > 0)
        for (float& v : x) v = to_float(to_bf16(v));
      for (bool extras : {false, true}) {
        fast.bias = slow.bias = extras ? bias : std::vector<float>{};
        std::vector<float> got(m * (n + 3), 1.5f), want = got;
        fast.run(x, k + 5, m, got, extras);
        slow.run(x, k + 5, m, want, extras);
        const float tolerance = 1e-6f * static_cast<float>(k) + 2e-5f;
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got[i], want[i], tolerance) << "n " << n << " k " << k << " m " << m << " at " << i;
      }
    }
  }
}

TEST_P(LinearIsa, BitsDoNotDependOnTheSplit) {
  for (auto [n, k] : {std::pair<int64_t, int64_t>{150, 1031}, {64, 520}, {48, 37}}) {
    const auto w = random(n * k, 1);
    Case c(kernel(), w, n, k);
    c.bias = random(n, 3);
    const int64_t m = 40;
    const auto x = random(m * k, 2);
    std::vector<float> alone(m * (n + 3), 0.25f);
    for (int64_t r = 0; r < m; ++r) {
      std::vector<float> row(x.begin() + r * k, x.begin() + (r + 1) * k), y(n + 3, 0.25f);
      c.run(row, k, 1, y, true);
      std::copy(y.begin(), y.end(), alone.begin() + r * (n + 3));
    }
    for (int64_t count = 1; count <= m; ++count)
      for (int64_t columns : {int64_t{1} << 20, int64_t{c.kernel.n_step}, int64_t{5} * c.kernel.n_step})
        for (int64_t rows : {int64_t{1} << 20, int64_t{c.kernel.m_step}}) {
          std::vector<float> y(m * (n + 3), 0.25f);
          c.run(x, k, count, y, true, rows, columns);
          ASSERT_EQ(std::memcmp(y.data(), alone.data(), count * (n + 3) * sizeof(float)), 0)
              << "n " << n << " k " << k << " m " << count << " columns " << columns << " rows " << rows;
        }
  }
}

TEST_P(LinearIsa, NanAndInfinityStayInTheirRowAndColumn) {
  const int64_t n = 37, k = 131, m = 9;
  for (float bad : {kNan, kInf}) {
    auto w = random(n * k, 1), x = random(m * (k + 1), 2);
    w[5 * k + 130] = bad;      // column 5, last k
    x[4 * (k + 1) + 3] = bad;  // row 4
    for (int64_t r = 0; r < m; ++r)
      x[r * (k + 1) + k] = kNan;  // past the rows' ends: must not be read into a sum
    Case c(kernel(), w, n, k);
    std::vector<float> y(m * (n + 3), 7.0f);
    c.run(x, k + 1, m, y, false);
    for (int64_t r = 0; r < m; ++r)
      for (int64_t col = 0; col < n + 3; ++col)
        ASSERT_EQ(!std::isfinite(y[r * (n + 3) + col]), col < n && (r == 4 || col == 5)) << r << ", " << col;
  }
}

std::vector<std::tuple<std::string, WeightFormat>> own_kernels() {
  std::vector<std::tuple<std::string, WeightFormat>> out;
  for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16})
    for (const std::string& isa :
         test_levels([&](const KernelTable& t) { return t.linear[static_cast<int>(format)].run; }))
      out.emplace_back(isa, format);
  return out;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinearIsa);  // OCTAVO_TEST_LEVELS may leave none
INSTANTIATE_TEST_SUITE_P(Levels, LinearIsa, testing::ValuesIn(own_kernels()), [](const auto& p) {
  return std::get<0>(p.param) + "_" + std::to_string(static_cast<int>(std::get<1>(p.param)));
});

}  // namespace
}  // namespace octavo::kernels
