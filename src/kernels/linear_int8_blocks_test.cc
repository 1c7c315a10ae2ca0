// GGUF's blocks in int8 arithmetic, of every level: bit for bit what the scalar kernel gives, and sums that
// stay exact at the ends of their ranges. (That the scalar kernel's weights are the file's:
// load/quant/block_kernels_test.cc.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

struct Int8Case {
  const char* name;
  WeightFormat format;
  int elements, bytes;
  std::vector<int> halves;  ///< where a block holds float16s
};

std::vector<Int8Case> cases() {
  using F = WeightFormat;
  return {{"q4_1", F::kQ4_1A8, 32, 20, {0, 2}},   {"q5_0", F::kQ5_0A8, 32, 22, {0}},
          {"q5_1", F::kQ5_1A8, 32, 24, {0, 2}},   {"q2_k", F::kQ2_KA8, 256, 84, {80, 82}},
          {"q3_k", F::kQ3_KA8, 256, 110, {108}},  {"q4_k", F::kQ4_KA8, 256, 144, {0, 2}},
          {"q5_k", F::kQ5_KA8, 256, 176, {0, 2}}, {"q6_k", F::kQ6_KA8, 256, 210, {208}},
          {"mxfp4", F::kMXFP4A8, 32, 17, {}}};
}

/// Blocks of [n, k] weights: random bytes, or all of them `fill`.
std::vector<std::byte> blocks_of(const Int8Case& c, int64_t n, int64_t k, int fill) {
  std::mt19937 gen(static_cast<unsigned>(n * k));
  std::vector<std::byte> out(n * k / c.elements * c.bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(fill < 0 ? gen() : static_cast<unsigned>(fill));
  for (size_t i = 0; i < out.size(); i += c.bytes) {
    if (c.halves.empty()) out[i] = static_cast<std::byte>(118 + gen() % 12);  // an exponent
    for (int at : c.halves) {
      const uint16_t half =
          static_cast<uint16_t>((gen() & 0x83ff) | gen() % 12 << 10);  // subnormal ones, too
      std::memcpy(&out[i + at], &half, 2);
    }
  }
  return out;
}

class Int8Blocks : public testing::TestWithParam<std::tuple<std::string, Int8Case>> {
 protected:
  const Int8Case& format() const { return std::get<1>(GetParam()); }
  int64_t inputs(int64_t k) const {
    return (k + format().elements - 1) / format().elements * format().elements;
  }
  const LinearKernel& kernel(const char* isa) const {
    return select(isa).linear[static_cast<int>(format().format)];
  }
  const LinearKernel& own() const { return kernel(std::get<0>(GetParam()).c_str()); }

  /// y [m, n + 3] in pieces of at most `rows` and `columns`, added to 0.5 and a bias.
  std::vector<float> run(const LinearKernel& kn, const std::vector<std::byte>& blocks, int64_t n,
                         const std::vector<float>& x, int64_t k, int64_t rows = 1 << 20,
                         int64_t columns = 1 << 20) const {
    const int64_t m = std::ssize(x) / k, row_bytes = k / format().elements * format().bytes;
    const LinearShape shape{n, k, 32};
    std::vector<std::byte> packed(kn.packed_bytes(shape) + 64), prepared(kn.prepared_bytes(m, shape));
    for (int64_t n0 = 0; n0 < n; n0 += kn.n_step) {
      WeightRows from;
      from.blocks = blocks.data() + n0 * row_bytes;
      from.block_row_bytes = row_bytes;
      kn.pack(from, n0, std::min(n, n0 + kn.n_step), shape, packed.data());
    }
    kn.prepare(x.data(), k, 0, m, m, shape, prepared.data());
    std::vector<float> y(m * (n + 3), 0.5f), bias(n);
    for (int64_t i = 0; i < n; ++i) bias[i] = static_cast<float>(i % 7) - 1;
    LinearRun a{};
    a.packed = packed.data(), a.prepared = prepared.data();
    a.y = y.data(), a.ldy = n + 3, a.bias = bias.data();
    a.shape = shape, a.m = m, a.accumulate = true;
    for (a.n0 = 0; a.n0 < n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(n, a.n0 + columns); a.m0 < m; a.m0 = a.m1) {
        a.m1 = std::min(m, a.m0 + rows);
        kn.run(a);
      }
    return y;
  }
  void same(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) const {
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want[i]) << what << " at " << i;
  }
};

std::vector<float> random(int64_t count) {
  std::mt19937 gen(2);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = normal(gen) * std::ldexp(1.0f, static_cast<int>(i / 32 % 9));
  return out;
}

TEST_P(Int8Blocks, EqualsScalarInAnyShapeAndSplit) {
  for (auto [n, k_least] : {std::pair<int64_t, int64_t>{1, 32}, {16, 96}, {37, 544}, {20, 1100}})
    for (int64_t m : {1, 2, 3, 5, 6, 7, 11, 12, 13, 33}) {
      const int64_t k = inputs(k_least);
      const auto blocks = blocks_of(format(), n, k, -1);
      const auto x = random(m * k), want = run(kernel("scalar"), blocks, n, x, k);
      const std::string what = "n " + std::to_string(n) + " m " + std::to_string(m);
      same(run(own(), blocks, n, x, k), want, what);
      same(run(own(), blocks, n, x, k, 3, 16), want, what + " in pieces");
    }
}

TEST_P(Int8Blocks, MoreRowsThanABlock) {
  const int64_t n = 18, k = inputs(600), m = 200;
  const auto blocks = blocks_of(format(), n, k, -1);
  const auto x = random(m * k);
  same(run(own(), blocks, n, x, k), run(own(), blocks, n, x, k, 7), "m 200");
}

/// All codes least or most, activations 127, -127 or alternating (also by a factor that leaves their scale no
/// bits): no lane of 16 bits may overflow.
TEST_P(Int8Blocks, ExactAtTheEndsOfTheRanges) {
  const int64_t n = 17, k = inputs(64);
  for (int fill : {0x00, 0xff, 0x0f, 0xf0})
    for (int pattern = 0; pattern < 4; ++pattern)
      for (float factor : {1.0f, 1.5f * std::numeric_limits<float>::denorm_min()})
        for (int64_t m : {1, 2, 3}) {
          std::vector<float> x(m * k);
          for (int64_t i = 0; i < m * k; ++i)
            x[i] =
                factor *
                ((pattern == 0 || (pattern == 2 && i % 2) || (pattern == 3 && i % 4 < 2)) ? 127.0f : -127.0f);
          const auto blocks = blocks_of(format(), n, k, fill);
          same(run(own(), blocks, n, x, k), run(kernel("scalar"), blocks, n, x, k), std::to_string(fill));
        }
}

/// A row with a NaN or an infinity is NaN throughout, its neighbours are not touched.
TEST_P(Int8Blocks, BadValuesStayInTheirRow) {
  const int64_t n = 20, k = inputs(600);
  const auto blocks = blocks_of(format(), n, k, -1);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (int64_t m : {1, 2, 5})
      for (int64_t at : {int64_t{7}, int64_t{30}, k - 1}) {
        auto x = random(m * k);
        x[(m - 1) * k + at] = bad;
        const auto y = run(own(), blocks, n, x, k);
        for (int64_t i = 0; i < m * (n + 3); ++i)
          if (i % (n + 3) < n) {
            ASSERT_EQ(std::isfinite(y[i]), i / (n + 3) != m - 1) << i;
          }
      }
}

/// At most a tenth more bytes than the file (whole panels).
TEST_P(Int8Blocks, HardlyGrows) {
  EXPECT_LE(own().packed_bytes({64, 2048, 32}) * 10, 64u * 2048 / format().elements * format().bytes * 11);
}

std::vector<std::tuple<std::string, Int8Case>> own_kernels() {
  std::vector<std::tuple<std::string, Int8Case>> out;
  for (const Int8Case& c : cases())
    for (const std::string& isa :
         test_levels([&](const KernelTable& t) { return t.linear[static_cast<int>(c.format)].run; }))
      out.emplace_back(isa, c);
  return out;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Int8Blocks);  // OCTAVO_TEST_LEVELS may leave none
INSTANTIATE_TEST_SUITE_P(Levels, Int8Blocks, testing::ValuesIn(own_kernels()), [](const auto& p) {
  return std::get<0>(p.param) + "_" + std::get<1>(p.param).name;
});

}  // namespace
}  // namespace octavo::kernels
