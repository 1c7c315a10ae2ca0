#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/testing.h"

namespace octavo {
namespace {

constexpr int kDims = 64;

RopeConfig config(RopeType type, double factor = 1, int64_t original = 512) {
  RopeConfig c;
  c.type = type;
  c.factor = factor;
  c.original_max_position = original;
  return c;
}

TEST(RopeTest, DefaultIsTheGeometricSeries) {
  const std::vector<float> f = rope_frequencies(config(RopeType::kDefault), kDims);
  ASSERT_EQ(f.size(), 32u);
  for (int i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(f[i], std::pow(10000.0, -i / 32.0));
}

TEST(RopeTest, LinearDividesEveryFrequency) {
  const std::vector<float> plain = rope_frequencies(config(RopeType::kDefault), kDims);
  const std::vector<float> scaled = rope_frequencies(config(RopeType::kLinear, 4), kDims);
  for (int i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 4);
}

TEST(RopeTest, Llama3KeepsShortWavelengthsAndStretchesLongOnes) {
  const std::vector<float> plain = rope_frequencies(config(RopeType::kDefault), kDims);
  const std::vector<float> scaled = rope_frequencies(config(RopeType::kLlama3, 8), kDims);
  for (int i = 0; i < 32; ++i) {
    const double wavelength = 2 * M_PI / plain[i];
    const float ratio = scaled[i] / plain[i];
    EXPECT_GE(ratio, wavelength < 512 / 4.0 ? 0.99999f : 0.12499f) << i;
    EXPECT_LE(ratio, wavelength > 512 / 1.0 ? 0.12501f : 1.0f) << i;
    EXPECT_LT(scaled[i], i ? scaled[i - 1] : INFINITY);
  }
}

TEST(RopeTest, YarnInterpolatesWhatTurnsLessThanOnceAndKeepsWhatTurnsOften) {
  RopeConfig yarn = config(RopeType::kYarn, 4);
  const std::vector<float> plain = rope_frequencies(config(RopeType::kDefault), kDims);
  const std::vector<float> scaled = rope_frequencies(yarn, kDims);
  EXPECT_FLOAT_EQ(scaled[0], plain[0]);
  EXPECT_FLOAT_EQ(scaled[31], plain[31] / 4);
  // The ends of the ramp, by the paper's formula: index where 32 turns and 1 turn fit into 512 positions.
  const double low = 64 * std::log(512 / (32 * 2 * M_PI)) / (2 * std::log(10000)),
               high = 64 * std::log(512 / (2 * M_PI)) / (2 * std::log(10000));
  EXPECT_FLOAT_EQ(scaled[static_cast<int>(low)], plain[static_cast<int>(low)]);
  EXPECT_FLOAT_EQ(scaled[static_cast<int>(std::ceil(high))], plain[static_cast<int>(std::ceil(high))] / 4);
  yarn.truncate = false;
  const double ramp = (10 - low) / (high - low);
  EXPECT_FLOAT_EQ(rope_frequencies(yarn, kDims)[10], plain[10] * (ramp / 4 + 1 - ramp));
  EXPECT_NE(rope_frequencies(yarn, kDims)[10], scaled[10]);
}

TEST(RopeTest, FrequencyFactorsDivide) {
  RopeConfig c = config(RopeType::kDefault);
  const std::vector<float> plain = rope_frequencies(c, kDims);
  for (int i = 0; i < 32; ++i) c.freq_factors.push_back(1.0f + 0.25f * i);
  const std::vector<float> scaled = rope_frequencies(c, kDims);
  for (int i = 0; i < 32; ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / c.freq_factors[i]);
}

TEST(RopeTest, TableHoldsAnglesAndTheAttentionFactor) {
  TestMachine machine(kernels::select());
  RopeConfig c = config(RopeType::kYarn, 4);
  c.attention_factor = 0.1 * std::log(4.0) + 1;
  c.partial_rotary_factor = 0.75;
  const RopeTable table = rope_table(machine.ctx, c, kDims, 1000);
  ASSERT_EQ(table.rotary, 48);
  ASSERT_EQ(table.cos.size(), 1000u * 24);
  const std::vector<float> f = rope_frequencies(c, 48);
  for (int p : {0, 1, 255, 256, 999})
    for (int i = 0; i < 24; ++i) {
      EXPECT_NEAR(table.cos[p * 24 + i], std::cos(static_cast<double>(p * f[i])) * c.attention_factor, 1e-6);
      EXPECT_NEAR(table.sin[p * 24 + i], std::sin(static_cast<double>(p * f[i])) * c.attention_factor, 1e-6);
    }
}

TEST(RopeTest, DynamicIsPlainUpToTheTrainedLengthAndStretchesWithTheLengthBeyond) {
  TestMachine machine(kernels::select());
  const RopeTable plain = rope_table(machine.ctx, config(RopeType::kDefault), kDims, 1024);
  const RopeTable dynamic = rope_table(machine.ctx, config(RopeType::kDynamic, 2), kDims, 1024);
  for (int i = 0; i < 511 * 32; ++i) ASSERT_EQ(dynamic.cos[i], plain.cos[i]);
  for (int p : {512, 700, 1023}) {
    const double base = 10000 * std::pow(2.0 * (p + 1) / 512 - 1, 64.0 / 62);
    for (int i = 0; i < 32; ++i)
      EXPECT_NEAR(dynamic.sin[p * 32 + i], std::sin(p * std::pow(base, -i / 32.0)), 2e-4) << p << " " << i;
  }
}

}  // namespace
}  // namespace octavo
