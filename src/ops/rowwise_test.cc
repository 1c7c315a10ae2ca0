// Row-wise ops: every row the same, whatever the split over workers.
#include "ops/rowwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/dtype.h"

namespace octavo {
namespace {

std::vector<float> random(int64_t count, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(gen);
  return out;
}

struct Fixture {
  Team team;
  Workspace workspace{1 << 20};
  OpContext ctx;
  explicit Fixture(int workers)
      : team(TeamOptions{std::vector<int>(workers, 0), false}), ctx{team, workspace, kernels::select()} {}
};

/// Runs op on 1 and on 3 workers and expects the same bytes of its result.
template <class F>
std::vector<float> same_on_workers(F op) {
  Fixture one(1), three(3);
  const std::vector<float> a = op(one.ctx), b = op(three.ctx);
  EXPECT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
  return a;
}

constexpr int64_t kRows = 61, kWidth = 1000;

TEST(Rowwise, NormsTakeEachRowAlone) {
  const auto x = random(kRows * kWidth, 1), w = random(kWidth, 2), b = random(kWidth, 3);
  const auto rms = same_on_workers([&](OpContext& ctx) {
    std::vector<float> y(kRows * kWidth);
    rms_norm(ctx, x.data(), kWidth, w.data(), 1e-5f, kRows, kWidth, y.data(), kWidth);
    return y;
  });
  const auto added = same_on_workers([&](OpContext& ctx) {
    std::vector<float> residual(kRows * kWidth), y(kRows * kWidth);
    add_rms_norm(ctx, residual.data(), x.data(), w.data(), 1e-5f, kRows, kWidth, y.data());
    EXPECT_EQ(residual, x);
    add_rms_norm(ctx, residual.data(), nullptr, w.data(), 1e-5f, kRows, kWidth, y.data());
    return y;
  });
  EXPECT_EQ(rms, added);
  same_on_workers([&](OpContext& ctx) {
    std::vector<float> y(kRows * kWidth);
    layer_norm(ctx, x.data(), w.data(), b.data(), 1e-5f, kRows, kWidth, y.data());
    return y;
  });
}

TEST(Rowwise, RopeUsesEachTokensPosition) {
  constexpr int kHeads = 9, kDim = 64;
  RopeTable table{kDim, random(100 * kDim / 2, 1), random(100 * kDim / 2, 2)};
  std::vector<int32_t> positions(kRows);
  for (int64_t t = 0; t < kRows; ++t) positions[t] = static_cast<int32_t>(t * 37 % 100);
  const auto x = random(kRows * kHeads * kDim, 3);
  const auto y = same_on_workers([&](OpContext& ctx) {
    auto out = x;
    rope(ctx, table, positions.data(), kRows, out.data(), kHeads * kDim, kHeads, kDim);
    return out;
  });
  for (int64_t i = 0; i < kRows * kHeads; ++i) {
    const int64_t at = i * kDim + 5, angle = positions[i / kHeads] * (kDim / 2) + 5;
    EXPECT_NEAR(y[at], x[at] * table.cos[angle] - x[at + 32] * table.sin[angle], 1e-5);
  }
}

TEST(Rowwise, ActivationsCoverEveryElement) {
  for (Activation act : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu}) {
    for (int64_t n : {kWidth, int64_t{20000}}) {
      const int64_t rows = n == kWidth ? kRows : 2;
      const auto x = random(rows * 2 * n, 1);
      const auto plain = same_on_workers([&](OpContext& ctx) {
        auto y = x;
        activation(ctx, act, y.data(), rows, 2 * n);
        return y;
      });
      const int64_t ldx = 2 * n + 16;
      std::vector<float> apart(rows * ldx, NAN);
      for (int64_t r = 0; r < rows; ++r) std::copy_n(x.begin() + r * 2 * n, 2 * n, apart.begin() + r * ldx);
      const auto gated = same_on_workers([&](OpContext& ctx) {
        std::vector<float> y(rows * n);
        gated_activation(ctx, act, apart.data(), ldx, rows, n, y.data());
        return y;
      });
      for (int64_t i = 0; i < rows * n; ++i)
        ASSERT_EQ(gated[i], plain[i / n * 2 * n + i % n] * x[i / n * 2 * n + n + i % n]) << i;
    }
  }
}

TEST(Rowwise, EmbeddingReadsBothTypes) {
  constexpr int64_t kVocab = 50;
  const auto rows = random(kVocab * kWidth, 1);
  std::vector<uint16_t> half(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) half[i] = to_bf16(rows[i]).bits;
  std::vector<int32_t> ids(kRows);
  for (int64_t t = 0; t < kRows; ++t) ids[t] = static_cast<int32_t>(t * 17 % kVocab);
  for (bool bf16 : {false, true}) {
    const auto y = same_on_workers([&](OpContext& ctx) {
      std::vector<float> out(kRows * kWidth);
      embedding(ctx,
                {bf16 ? static_cast<const void*>(half.data()) : rows.data(), bf16, kVocab, kWidth,
                 kWidth * (bf16 ? 2 : 4)},
                ids.data(), kRows, out.data());
      return out;
    });
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      const float x = rows[ids[i / kWidth] * kWidth + i % kWidth];
      ASSERT_EQ(y[i], bf16 ? to_float(to_bf16(x)) : x);
    }
  }
}

TEST(Rowwise, AddAdds) {
  const auto x = random(100001, 1), y = random(100001, 2);
  const auto sum = same_on_workers([&](OpContext& ctx) {
    auto out = x;
    add(ctx, out.data(), y.data(), static_cast<int64_t>(out.size()));
    return out;
  });
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(sum[i], x[i] + y[i]);
}

}  // namespace
}  // namespace octavo
