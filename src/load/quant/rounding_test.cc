#include "load/quant/rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"

namespace octavo::quant {
namespace {

constexpr Element kElements[] = {Element::kInt8, Element::kInt4, Element::kE4M3, Element::kE2M1};

std::vector<float> random_row(int64_t k, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(k);
  for (float& x : out) x = normal(random) * scale;
  return out;
}

std::vector<int8_t> codes_of(Element element) {
  std::vector<int8_t> out;
  const int low = element == Element::kInt4 ? -8 : element == Element::kE2M1 ? 0 : -128;
  const int high = element == Element::kInt4 ? 7 : element == Element::kE2M1 ? 15 : 127;
  for (int i = low; i <= high; ++i)
    if (!std::isnan(decoded(element, static_cast<int8_t>(i)))) out.push_back(static_cast<int8_t>(i));
  return out;
}

/// The parity that a tie goes to: the last bit of the code (of the magnitude, for floats).
bool even(Element element, int8_t code) {
  return (element == Element::kInt8 || element == Element::kInt4 ? std::abs(code) : code) % 2 == 0;
}

TEST(Rounding, EveryValueGoesToItsNearestCode) {
  for (Element element : kElements) {
    const std::vector<int8_t> codes = codes_of(element);
    std::vector<float> probes = random_row(4000, 1, 60);
    for (int8_t a : codes)
      for (float x : {decoded(element, a), decoded(element, a) * 1.03f, decoded(element, a) + 0.5f})
        probes.push_back(x);
    for (float x : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 0x1p-10f, 0x3p-10f, 1e6f, -1e6f, 455.0f})
      probes.push_back(x);
    for (float x : probes) {
      const int8_t got = encode(element, x, 1);
      float least = std::numeric_limits<float>::infinity();
      for (int8_t code : codes) least = std::min(least, std::abs(decoded(element, code) - x));
      ASSERT_EQ(std::abs(decoded(element, got) - x), least) << static_cast<int>(element) << " " << x;
      int ties = 0;
      for (int8_t code : codes)
        ties +=
            std::abs(decoded(element, code) - x) == least && decoded(element, code) != decoded(element, got);
      if (ties) {
        ASSERT_TRUE(even(element, got)) << static_cast<int>(element) << " " << x << " " << int{got};
      }
    }
  }
}

/// Largest error of a value as a share of the largest magnitude of its group.
double bound(Element element) {
  switch (element) {
    case Element::kInt8:
      return 0.5 / 127;
    case Element::kInt4:
      return 0.5 / 7.5;
    case Element::kE4M3:
      return 1.0 / 16;  // relative, of a number with 3 bits
    case Element::kE2M1:
      return 2.0 / 8;  // the scale may let 8 saturate to 6
  }
  return 0;
}

TEST(Rounding, ErrorsOfARowAreBounded) {
  for (Element element : kElements)
    for (ScaleFormat format : {ScaleFormat::kF32, ScaleFormat::kF16, ScaleFormat::kBF16})
      for (float size : {1e-30f, 1e-3f, 1.0f, 1e30f}) {
        if (format == ScaleFormat::kF16 && (size < 1e-3f || size > 1)) continue;  // beyond its range
        const int64_t k = 96, group = 32;
        std::vector<float> x = random_row(k, 7, size), scales(k / group);
        std::vector<int8_t> q(k);
        ASSERT_TRUE(
            round_row({element, group, Scales::kMinMax, format}, x.data(), k, q.data(), scales.data()));
        for (int64_t i = 0; i < k; ++i) {
          double top = 0;
          for (int64_t j = i / group * group; j < (i / group + 1) * group; ++j)
            top = std::max<double>(top, std::abs(x[j]));
          const double error = std::abs(decoded(element, q[i]) * double{scales[i / group]} - x[i]);
          ASSERT_LE(error, top * (bound(element) + (format == ScaleFormat::kBF16  ? 0.004
                                                    : format == ScaleFormat::kF16 ? 0.0005
                                                                                  : 1e-6)))
              << static_cast<int>(element);
        }
        for (float scale : scales) {
          EXPECT_TRUE(format != ScaleFormat::kBF16 || element == Element::kE2M1 ||
                      to_float(to_bf16(scale)) == scale);
          EXPECT_TRUE(element != Element::kE2M1 || std::exp2(std::round(std::log2(scale))) == scale);
        }
      }
}

TEST(Rounding, LeastSquaresIsNeverWorse) {
  for (Element element : kElements) {
    double sum[2] = {};
    for (uint32_t seed = 0; seed < 20; ++seed) {
      const std::vector<float> x = random_row(128, seed);
      double error[2] = {};
      for (Scales scales : {Scales::kMinMax, Scales::kMse}) {
        std::vector<int8_t> q(128);
        std::vector<float> s(4);
        ASSERT_TRUE(round_row({element, 32, scales}, x.data(), 128, q.data(), s.data()));
        for (int i = 0; i < 128; ++i)
          error[scales == Scales::kMse] += std::pow(decoded(element, q[i]) * s[i / 32] - x[i], 2);
      }
      EXPECT_LE(error[1], error[0] * (1 + 1e-5));
      sum[0] += error[0], sum[1] += error[1];
    }
    EXPECT_LT(sum[1], (element == Element::kInt4 ? 0.95 : 1) * sum[0]);
  }
}

TEST(Rounding, ZerosSubnormalsAndWhatIsNotFinite) {
  for (Element element : kElements)
    for (Scales scales : {Scales::kMinMax, Scales::kMse}) {
      std::vector<float> x(8, 0.0f), s(1);
      std::vector<int8_t> q(8);
      const Rounding rounding{element, 0, scales};
      ASSERT_TRUE(round_row(rounding, x.data(), 8, q.data(), s.data()));
      EXPECT_EQ(q, std::vector<int8_t>(8, 0));
      EXPECT_EQ(s[0], 1);
      x[3] = 1e-42f;
      ASSERT_TRUE(round_row(rounding, x.data(), 8, q.data(), s.data()));
      EXPECT_LE(std::abs(decoded(element, q[3]) * s[0] - x[3]), 2e-38f);
      x[3] = std::numeric_limits<float>::max();
      ASSERT_TRUE(round_row(rounding, x.data(), 8, q.data(), s.data()));
      EXPECT_NEAR(decoded(element, q[3]) * double{s[0]} / x[3], 1, 0.3);
      for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()}) {
        x[5] = bad;
        EXPECT_FALSE(round_row(rounding, x.data(), 8, q.data(), s.data()));
      }
    }
}

}  // namespace
}  // namespace octavo::quant
