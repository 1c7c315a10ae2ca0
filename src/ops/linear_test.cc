#include "ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"

namespace octavo {
namespace {

using kernels::WeightFormat;

struct Fixture {
  Team team;
  Workspace workspace{size_t{64} << 20};
  OpContext ctx;
  explicit Fixture(int workers, const char* isa = "scalar")
      : team(TeamOptions{std::vector<int>(workers, 0), false}), ctx{team, workspace, kernels::select(isa)} {}
};

std::vector<float> random(int64_t count, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(gen);
  return out;
}

LinearPart part_of(const std::vector<float>& w, int64_t n, int64_t k, std::vector<float> bias = {},
                   WeightFormat format = WeightFormat::kF32) {
  return {format,
          {n, k, k},
          [&w, k](int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows) {
            std::memcpy(scratch, w.data() + n0 * k, (n1 - n0) * k * sizeof(float));
            rows.values = scratch;
          },
          std::move(bias)};
}

TEST(Linear, FusedPartsOfOddSizesEqualTheProduct) {
  const int64_t k = 37, sizes[] = {70, 5, 33}, n = 108, m = 9;
  const auto x = random(m * k, 1);
  std::vector<std::vector<float>> w;
  std::vector<LinearPart> parts;
  for (int i = 0; i < 3; ++i) w.push_back(random(sizes[i] * k, 10 + i));
  for (int i = 0; i < 3; ++i)
    parts.push_back(part_of(w[i], sizes[i], k, i == 1 ? random(5, 3) : std::vector<float>{}));
  for (const char* const* isa = kernels::available(); *isa; ++isa) {
    Fixture f(3, *isa);
    const Linear linear_layer = Linear::build(f.ctx, parts);
    ASSERT_EQ(linear_layer.n, n);
    for (bool accumulate : {false, true}) {
      std::vector<float> y(m * n, 2.0f);
      linear(f.ctx, linear_layer, x.data(), k, m, y.data(), n, accumulate);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0, at = 0, i = 0; c < n; ++c) {
          if (c - at == sizes[i]) at += sizes[i++];
          double sum = (accumulate ? 2.0 : 0.0) + (i == 1 ? parts[1].bias[c - at] : 0.0f);
          for (int64_t j = 0; j < k; ++j) sum += double{x[r * k + j]} * w[i][(c - at) * k + j];
          ASSERT_NEAR(y[r * n + c], sum, 1e-4) << *isa << " row " << r << " column " << c;
        }
    }
    EXPECT_EQ(f.workspace.used(), 0u);
  }
}

// The promise of kernels/table.h at the level of the op: a row's bits do not depend on its batch or on the
// Team.
TEST(Linear, RowsDoNotDependOnBatchOrTeam) {
  const int64_t k = 300, n = 1003, m = 401;
  const auto w = random(n * k, 4), x = random(m * k, 5);
  for (const char* const* isa = kernels::available(); *isa; ++isa)
    for (WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
      std::vector<float> want(m * n), got(m * n);
      Fixture one(1, *isa), three(3, *isa);
      const Linear a = Linear::build(one.ctx, {part_of(w, n, k, {}, format)});
      const Linear b = Linear::build(three.ctx, {part_of(w, n, k, {}, format)});
      const LinearSegment &sa = a.segments[0], &sb = b.segments[0];
      ASSERT_EQ(std::memcmp(sa.packed.data(), sb.packed.data(), sa.kernel->packed_bytes(sa.shape)), 0);
      linear(three.ctx, b, x.data(), k, m, want.data(), n);
      for (int64_t first = 0, rows = 1; first < m; first += rows, rows = rows * 2 + 1) {
        const int64_t count = std::min(rows, m - first);
        linear(one.ctx, a, x.data() + first * k, k, count, got.data() + first * n, n);
      }
      ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)), 0) << *isa;
    }
}

TEST(Linear, AnErrorOfAPartReachesTheCaller) {
  Fixture f(3);
  LinearPart broken{WeightFormat::kF32,
                    {500, 64, 64},
                    [](int64_t, int64_t, float*, kernels::WeightRows&) { throw Error("tensor q: ", "cut"); },
                    {}};
  EXPECT_THROW(Linear::build(f.ctx, {broken}), Error);
}

TEST(PackedBuffer, IsAlignedAndMovable) {
  PackedBuffer large(size_t{5} << 20), small(100), empty;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % (2 << 20), 0u);
  EXPECT_GE(large.size(), size_t{5} << 20);
  std::memset(large.data(), 1, large.size());
  std::memset(small.data(), 1, small.size());
  std::byte* data = large.data();
  empty = std::move(large);
  EXPECT_EQ(empty.data(), data);
  EXPECT_EQ(large.data(), nullptr);
}

}  // namespace
}  // namespace octavo
