#include "model/compensate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/testing.h"

namespace octavo {
namespace {

using quant::Element;
using quant::Rounding;
using quant::Scales;

struct Layer {
  int64_t n, k, tokens;
  std::vector<float> w, x, product;
};

/// Inputs that are mixtures of fewer causes, as a trained model's are, some columns much larger than others.
Layer correlated(int64_t n, int64_t k, int64_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Layer out{n, k, tokens, {}, {}, {}};
  const int64_t causes = k / 4;
  std::vector<float> mix(causes * k);
  for (int64_t i = 0; i < causes * k; ++i) mix[i] = normal(random) * (i % k % 7 == 0 ? 4.0f : 1.0f);
  out.w.resize(n * k);
  for (float& value : out.w) value = normal(random);
  out.x.resize(tokens * k);
  for (int64_t t = 0; t < tokens; ++t) {
    std::vector<float> cause(causes);
    for (float& value : cause) value = normal(random);
    for (int64_t j = 0; j < k; ++j) {
      float sum = 0.1f * normal(random);
      for (int64_t c = 0; c < causes; ++c) sum += cause[c] * mix[c * k + j];
      out.x[t * k + j] = sum;
    }
  }
  out.product.resize(k * k);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j) out.product[i * k + j] += out.x[t * k + i] * out.x[t * k + j];
  return out;
}

double output_error(const Layer& layer, const Rounding& rounding, const std::vector<int8_t>& q,
                    const std::vector<float>& scales) {
  const int64_t group = rounding.group ? rounding.group : layer.k, groups = layer.k / group;
  double sum = 0;
  for (int64_t row = 0; row < layer.n; ++row)
    for (int64_t t = 0; t < layer.tokens; ++t) {
      double d = 0;
      for (int64_t j = 0; j < layer.k; ++j) {
        const float value =
            quant::decoded(rounding.element, q[row * layer.k + j]) * scales[row * groups + j / group];
        d += (value - layer.w[row * layer.k + j]) * layer.x[t * layer.k + j];
      }
      sum += d * d;
    }
  return sum;
}

TEST(Compensation, BeatsRoundToNearestOnCorrelatedInputs) {
  TestMachine machine(kernels::select());
  for (int64_t group : {int64_t{0}, int64_t{32}, int64_t{160}}) {
    const Layer layer = correlated(21, 320, 400, 3);
    const Rounding rounding{Element::kInt4, group, Scales::kMse, quant::ScaleFormat::kBF16};
    const int64_t groups = group ? layer.k / group : 1;
    std::vector<int8_t> q(layer.w.size());
    std::vector<float> scales(layer.n * groups);
    for (int64_t row = 0; row < layer.n; ++row)
      ASSERT_TRUE(quant::round_row(rounding, layer.w.data() + row * layer.k, layer.k,
                                   q.data() + row * layer.k, scales.data() + row * groups));
    const double nearest = output_error(layer, rounding, q, scales);
    std::vector<float> w = layer.w;
    Compensation(layer.product, {}, layer.k, group)
        .round(machine.ctx, rounding, w.data(), layer.n, q.data(), scales.data());
    EXPECT_LT(output_error(layer, rounding, q, scales), 0.4 * nearest) << group;
  }
}

TEST(Compensation, IsRoundToNearestOnIndependentInputs) {
  TestMachine machine(kernels::select());
  Layer layer = correlated(5, 64, 10, 1);
  std::fill(layer.product.begin(), layer.product.end(), 0.0f);
  for (int64_t j = 0; j < layer.k; ++j) layer.product[j * layer.k + j] = 2;
  const Rounding rounding{Element::kInt8, 0, Scales::kMinMax, quant::ScaleFormat::kBF16};
  std::vector<int8_t> q(layer.w.size()), want(layer.w.size());
  std::vector<float> scales(layer.n), want_scales(layer.n);
  for (int64_t row = 0; row < layer.n; ++row)
    quant::round_row(rounding, layer.w.data() + row * layer.k, layer.k, want.data() + row * layer.k,
                     &want_scales[row]);
  std::vector<float> w = layer.w;
  Compensation(layer.product, {}, layer.k, 0)
      .round(machine.ctx, rounding, w.data(), layer.n, q.data(), scales.data());
  EXPECT_EQ(q, want);
  EXPECT_EQ(scales, want_scales);
}

// A text shorter than the layer is wide, inputs that are always zero, and factors: all are finite.
TEST(Compensation, StandsSingularProducts) {
  TestMachine machine(kernels::select());
  Layer layer = correlated(4, 96, 3, 2);
  const Rounding rounding{Element::kInt4, 32, Scales::kMse, quant::ScaleFormat::kBF16};
  std::vector<int8_t> q(layer.w.size());
  std::vector<float> scales(layer.n * 3), w = layer.w, factors(layer.k, 2.0f);
  for (int64_t dead : {1, 70}) {  // of 96 inputs, always 0; the others are of rank 3
    for (int64_t i = 5; i < 5 + dead; ++i)
      for (int64_t j = 0; j < layer.k; ++j)
        layer.product[i * layer.k + j] = layer.product[j * layer.k + i] = 0;
    w = layer.w;
    Compensation(layer.product, factors, layer.k, 32)
        .round(machine.ctx, rounding, w.data(), layer.n, q.data(), scales.data());
    for (float scale : scales) EXPECT_TRUE(std::isfinite(scale) && scale > 0);
  }
  std::vector<float> broken = layer.product;
  broken[0] = NAN;
  EXPECT_THROW(Compensation(broken, {}, layer.k, 32), Error);
  std::vector<float> zero(layer.k * layer.k);
  Compensation(zero, {}, layer.k, 32)
      .round(machine.ctx, rounding, w.data(), layer.n, q.data(), scales.data());
  for (float scale : scales) EXPECT_TRUE(std::isfinite(scale));
  zero[0] = INFINITY;
  EXPECT_THROW(Compensation(zero, {}, layer.k, 32), Error);
}

}  // namespace
}  // namespace octavo
