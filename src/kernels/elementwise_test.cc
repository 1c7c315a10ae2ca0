// Row-wise kernels of every ISA against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/scalar/vec.h"
#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels::scalar {
namespace {
#include "kernels/generic/exp.inl"
}  // namespace
}  // namespace octavo::kernels::scalar

namespace octavo::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

template <class F>
void for_isas(F f) {
  for (const std::string& isa : test_levels([](const KernelTable& t) { return t.elementwise; })) {
    SCOPED_TRACE(isa);
    f(select(isa.c_str()).elementwise);
  }
}

/// Floats of a row that starts at an odd element, so no kernel may assume alignment.
struct Row {
  explicit Row(int64_t n, unsigned seed = 1, float scale = 1) : storage(n + 1), data(storage.data() + 1) {
    std::mt19937 gen(seed);
    std::normal_distribution<float> normal;
    for (float& x : storage) x = scale * normal(gen);
  }
  std::vector<float> storage;
  float* data;
};

constexpr int64_t kLengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 576, 1000, 2048, 4099};

/// Largest relative error of f over every OCTAVO_STRIDE-th float in [low, high] (1: all, minutes; emulators
/// take a large one).
template <class F, class G>
double worst_error(float low, float high, F kernel, G reference) {
  const char* given = std::getenv("OCTAVO_STRIDE");
  const uint64_t stride = given ? std::strtoull(given, nullptr, 10) : 509;
  std::vector<float> x, y;
  double worst = 0;
  auto flush = [&] {
    y = x;
    kernel(y.data(), static_cast<int64_t>(y.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = reference(static_cast<double>(x[i]));
      if (std::fabs(expected) < 1.2e-38) continue;
      const double error = std::fabs(y[i] - expected) / std::fabs(expected);
      if (!(error <= worst)) worst = std::isnan(error) ? 1e30 : error;
    }
    x.clear();
  };
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += stride) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(value >= low && value <= high)) continue;
    x.push_back(value);
    if (x.size() == 8192) flush();
  }
  flush();
  return worst;
}

TEST(Elementwise, ExpIsWithinItsBound) {
  for_isas([](const ElementwiseKernels& k) {
    const double worst = worst_error(-87.33f, 88.37f, k.exp, [](double x) { return std::exp(x); });
    RecordProperty("worst", std::to_string(worst * 1e9));
    EXPECT_LE(worst, 1.2e-7);
    std::vector<float> x = {0.0f, -0.0f, -kInf, -87.4f, -104.0f, -3e38f, kNan, -kNan, 1.0f};
    k.exp(x.data(), static_cast<int64_t>(x.size()));
    EXPECT_EQ(x[0], 1);
    EXPECT_EQ(x[1], 1);
    for (int i = 2; i < 6; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(x[i]), 0u) << i;
    EXPECT_TRUE(std::isnan(x[6]) && std::isnan(x[7]));
  });
}

// No entry of the table: attention's own. The ISAs differ in fused roundings only, which exp shows.
TEST(Elementwise, Exp2IsWithinItsBound) {
  auto exp2 = [](float* x, int64_t n) {
    for (int64_t i = 0; i < n; i += scalar::kLanes) {
      const int rest = static_cast<int>(std::min<int64_t>(n - i, scalar::kLanes));
      scalar::store_first(x + i, scalar::exp2(scalar::load_first(x + i, rest)), rest);
    }
  };
  EXPECT_LE(worst_error(-126, 127, exp2, [](double x) { return std::exp2(x); }), 1.2e-7);
  float x[] = {0, -kInf, -126.5f, kNan};
  exp2(x, 4);
  EXPECT_TRUE(x[0] == 1 && x[1] == 0 && x[2] == 0 && std::isnan(x[3]));
}

TEST(Elementwise, TanhIsWithinItsBound) {
  for_isas([](const ElementwiseKernels& k) {
    const double worst = worst_error(-kInf, kInf, k.tanh, [](double x) { return std::tanh(x); });
    RecordProperty("worst", std::to_string(worst * 1e9));
    EXPECT_LE(worst, 3e-7);
    std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, kNan};
    k.tanh(x.data(), 5);
    EXPECT_TRUE(x[0] == 0 && !std::signbit(x[0]) && x[1] == 0 && std::signbit(x[1]));
    EXPECT_TRUE(x[2] == 1 && x[3] == -1 && std::isnan(x[4]));
  });
}

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) {
  return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Relative to the result down to the tail, where nothing is left of it in a network's sum; absolute below.
TEST(Elementwise, ActivationsAreWithinTheirBounds) {
  for_isas([](const ElementwiseKernels& k) {
    EXPECT_LE(worst_error(-80, 3e38f, k.silu, silu), 5e-7);
    EXPECT_LE(worst_error(-8, 3e38f, k.gelu, gelu), 4e-6);
    EXPECT_LE(worst_error(-5, 1e12f, k.gelu_tanh, gelu_tanh), 5e-6);
    for (auto f : {k.silu, k.gelu, k.gelu_tanh}) {
      std::vector<float> x = {-1e30f, -200.0f, -20.0f, 0.0f, 20.0f, 1e30f, kNan};
      const std::vector<float> in = x;
      f(x.data(), 7);
      EXPECT_LE(std::fabs(x[0]), 1e-6);
      EXPECT_LE(std::fabs(x[1]), 1e-6);
      EXPECT_LE(std::fabs(x[2]), 5e-8);
      for (int i = 3; i < 6; ++i) EXPECT_FLOAT_EQ(x[i], in[i]);
      EXPECT_TRUE(std::isnan(x[6]));
    }
  });
}

TEST(Elementwise, GatedActivationsMultiply) {
  for_isas([](const ElementwiseKernels& k) {
    for (int64_t n : kLengths) {
      Row gate(n, 1), up(n, 2), y(n);
      struct {
        decltype(k.silu_mul) gated;
        decltype(k.silu) plain;
      } pairs[] = {
          {k.silu_mul, k.silu}, {k.gelu_mul, k.gelu}, {k.gelu_tanh_mul, k.gelu_tanh}, {k.relu_mul, k.relu}};
      for (auto [gated, plain] : pairs) {
        gated(gate.data, up.data, n, y.data);
        Row act = gate;
        act.data = act.storage.data() + 1;
        plain(act.data, n);
        for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.data[i], act.data[i] * up.data[i]) << n << " " << i;
      }
      EXPECT_EQ(y.storage[0], Row(n).storage[0]);
    }
  });
}

TEST(Elementwise, NormsEqualDoublePrecision) {
  for_isas([](const ElementwiseKernels& k) {
    for (int64_t n : kLengths) {
      Row x(n, 1), w(n, 2), b(n, 3), y(n), residual(n, 4);
      for (int64_t i = 0; i < n; ++i) x.data[i] += 3;
      double squares = 0, mean = 0, var = 0, sum_squares = 0;
      for (int64_t i = 0; i < n; ++i) {
        squares += double(x.data[i]) * x.data[i];
        mean += double(x.data[i]) / n;
        const double s = residual.data[i] + x.data[i];
        sum_squares += s * s;
      }
      for (int64_t i = 0; i < n; ++i) var += (x.data[i] - mean) * (x.data[i] - mean) / n;
      const auto tolerance = [](double expected) { return 2e-6 * std::fabs(expected) + 2e-6; };
      k.rms_norm(x.data, w.data, 1e-5f, n, y.data);
      for (int64_t i = 0; i < n; ++i) {
        const double expected = x.data[i] / std::sqrt(squares / n + 1e-5) * w.data[i];
        ASSERT_NEAR(y.data[i], expected, tolerance(expected)) << n;
      }
      k.layer_norm(x.data, w.data, b.data, 1e-5f, n, y.data);
      for (int64_t i = 0; i < n; ++i) {
        const double expected = (x.data[i] - mean) / std::sqrt(var + 1e-5) * w.data[i] + b.data[i];
        ASSERT_NEAR(y.data[i], expected, (n == 1 ? 1e-3 : 4 * tolerance(expected))) << n;
      }
      const Row before = residual;
      k.add_rms_norm(residual.data, x.data, w.data, 1e-5f, n, y.data);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(residual.data[i], before.storage[i + 1] + x.data[i]);
        const double expected = residual.data[i] / std::sqrt(sum_squares / n + 1e-5) * w.data[i];
        ASSERT_NEAR(y.data[i], expected, tolerance(expected)) << n;
      }
    }
  });
}

TEST(Elementwise, ResultsDoNotDependOnAlignment) {
  for_isas([](const ElementwiseKernels& k) {
    const int64_t n = 1001;
    Row x(n, 1), w(n, 2);
    std::vector<float> first(n), y(n + 16), moved(n + 16);
    k.rms_norm(x.data, w.data, 1e-6f, n, first.data());
    for (int shift = 0; shift < 16; ++shift) {
      std::memcpy(moved.data() + shift, x.data, n * sizeof(float));
      k.rms_norm(moved.data() + shift, w.data, 1e-6f, n, y.data() + (shift * 5) % 16);
      ASSERT_EQ(std::memcmp(y.data() + (shift * 5) % 16, first.data(), n * sizeof(float)), 0) << shift;
    }
  });
}

TEST(Elementwise, RopeRotatesHalves) {
  for_isas([](const ElementwiseKernels& k) {
    for (int64_t rotary : {2, 6, 14, 16, 22, 30, 64, 80, 128, 256}) {
      Row x(rotary + 3, 1), cos(rotary / 2), sin(rotary / 2);
      for (int64_t i = 0; i < rotary / 2; ++i) {
        cos.data[i] = std::cos(0.1f * i);
        sin.data[i] = std::sin(0.1f * i);
      }
      const Row before = x;
      k.rope(x.data, cos.data, sin.data, rotary);
      for (int64_t i = 0; i < rotary / 2; ++i) {
        const double a = before.storage[1 + i], b = before.storage[1 + i + rotary / 2];
        ASSERT_NEAR(x.data[i], a * cos.data[i] - b * sin.data[i], 1e-6) << rotary;
        ASSERT_NEAR(x.data[i + rotary / 2], b * cos.data[i] + a * sin.data[i], 1e-6) << rotary;
      }
      for (int64_t i = rotary; i < rotary + 3; ++i) ASSERT_EQ(x.data[i], before.storage[1 + i]);
    }
  });
}

TEST(Elementwise, AddAndScaleTouchOnlyTheirRow) {
  for_isas([](const ElementwiseKernels& k) {
    for (int64_t n : kLengths) {
      Row x(n + 1, 1), y(n + 1, 2);
      const Row before = x;
      k.add(x.data, y.data, n);
      k.scale(x.data, 0.75f, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x.data[i], (before.storage[i + 1] + y.data[i]) * 0.75f);
      ASSERT_EQ(x.data[n], before.storage[n + 1]);
      ASSERT_EQ(x.storage[0], before.storage[0]);
    }
  });
}

TEST(Elementwise, Bf16RoundsToNearestEvenAndKeepsNan) {
  for_isas([](const ElementwiseKernels& k) {
    std::vector<float> x;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 40503)
      for (uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
        x.push_back(std::bit_cast<float>((static_cast<uint32_t>(bits) & 0xffff0000u) | low));
    x.push_back(std::bit_cast<float>(0x7f800001u));
    x.push_back(std::bit_cast<float>(0xff800001u));
    const auto n = static_cast<int64_t>(x.size());
    std::vector<uint16_t> y(n);
    std::vector<float> back(n);
    k.f32_to_bf16(x.data(), n, y.data());
    k.bf16_to_f32(y.data(), n, back.data());
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(y[i], to_bf16(x[i]).bits) << std::hex << std::bit_cast<uint32_t>(x[i]);
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{y[i]} << 16);
    }
  });
}

}  // namespace
}  // namespace octavo::kernels
