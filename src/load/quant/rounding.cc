#include "load/quant/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/dtype.h"

namespace octavo::quant {
namespace {

/// Adding and taking away 1.5 * 2^23 rounds to an integer, ties to even, for |x| < 2^22: unlike nearbyint it
/// is two SSE2 instructions, so the loops vectorise in the baseline build.
constexpr float kRounder = 12582912.0f;
float nearest(float x) { return x + kRounder - kRounder; }

struct Int8 {
  static constexpr float kMax = 127;
  static int8_t code(float x) { return static_cast<int8_t>(std::clamp(nearest(x), -128.0f, 127.0f)); }
  static float value(int8_t code) { return code; }
};

struct Int4 {
  static constexpr float kMax = 7.5f;
  static int8_t code(float x) { return static_cast<int8_t>(std::clamp(nearest(x), -8.0f, 7.0f)); }
  static float value(int8_t code) { return code; }
};

struct E4M3 {
  static constexpr float kMax = 448;
  static int8_t code(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits >> 24 & 0x80u;
    const float magnitude = std::min(std::abs(x), kMax);
    // Below 2^-6 codes are multiples of 2^-9 (the eighth of them is the first normal number).
    const auto small = static_cast<uint32_t>(nearest(std::min(magnitude, 0.5f) * 512));
    const uint32_t m = std::bit_cast<uint32_t>(magnitude);
    const uint32_t normal = ((m + 0x7ffffu + (m >> 20 & 1u)) >> 20) - (120u << 3);
    return static_cast<int8_t>(sign | (magnitude < 0x1p-6f ? small : normal));
  }
  static float value(int8_t code) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
    const float magnitude = exponent ? std::ldexp(static_cast<float>(8 + mantissa), exponent - 10)
                                     : static_cast<float>(mantissa) / 512;
    return code < 0 ? -magnitude : magnitude;
  }
};

struct E2M1 {
  static constexpr float kMax = 6;
  static int8_t code(float x) {
    const float a = std::abs(x);  // borders between 0 .5 1 1.5 2 3 4 6; a tie goes to the even code
    const int magnitude =
        (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) + (a >= 3.5f) + (a > 5);
    return static_cast<int8_t>(magnitude | (x < 0 ? 8 : 0));
  }
  static float value(int8_t code) {
    constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -kValues[code & 7] : kValues[code & 7];
  }
};

template <class F>
auto dispatch(Element element, const F& fn) {
  switch (element) {
    case Element::kInt8:
      return fn(Int8{});
    case Element::kInt4:
      return fn(Int4{});
    case Element::kE4M3:
      return fn(E4M3{});
    case Element::kE2M1:
      break;
  }
  return fn(E2M1{});
}

/// The largest magnitude as bits, which order as the numbers do, with infinities and NaN above them.
uint32_t max_bits(const float* x, int64_t n) {
  uint32_t top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return top;
}

/// 2^(floor(log2(absmax)) - 2): 2 is the exponent of FP4's largest number. Clamped to what E8M0 holds and
/// float32 has as a normal number.
float power_scale(float absmax) {
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(absmax) >> 23);  // biased; subnormals: 0
  return std::bit_cast<float>(static_cast<uint32_t>(std::clamp(exponent - 2, 1, 254)) << 23);
}

/// The nearest positive float16.
float nearest_half(float x) {
  constexpr float kLeast = 0x1p-24f, kMost = 65504;
  if (x < 0x1p-14f) return std::max(nearest(x / kLeast) * kLeast, kLeast);
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::min(std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu), kMost);
}

float stored(const Rounding& rounding, float scale) {
  if (rounding.element == Element::kE2M1 || rounding.scale_format == ScaleFormat::kF32) return scale;
  return rounding.scale_format == ScaleFormat::kBF16 ? to_float(to_bf16(scale)) : nearest_half(scale);
}

template <class E>
void encode_group(const float* x, int64_t n, float scale, int8_t* q) {
  const float inverse = 1 / scale;  // scale is at least the least normal number: finite
  for (int64_t i = 0; i < n; ++i) q[i] = E::code(x[i] * inverse);
}

template <class E>
double squared_error(const float* x, int64_t n, float scale, const float* importance) {
  const float inverse = 1 / scale;
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float error = x[i] - E::value(E::code(x[i] * inverse)) * scale;
    sum += error * error * (importance ? importance[i] : 1.0f);
  }
  return sum;
}

/// Shrinks the range in steps of 1 %: below 0.6 of it no group of a trained model was better off.
constexpr int kGridSteps = 40;
constexpr float kGridStep = 0.01f;

template <class E>
float least_squares_scale(const Rounding& rounding, const float* x, int64_t n, float widest,
                          const float* importance) {
  float best = stored(rounding, widest);
  double least = squared_error<E>(x, n, best, importance);
  const bool powers = rounding.element == Element::kE2M1;
  // A power-of-two scale that saturates nothing may be better too: 2^k holds up to 1.33 times its next best.
  const int steps = powers ? 1 : kGridSteps;
  for (int i = powers ? -1 : 1; i <= steps; ++i) {
    const float scale =
        stored(rounding, powers ? std::ldexp(widest, -i) : widest * (1 - kGridStep * static_cast<float>(i)));
    if (!(scale >= std::numeric_limits<float>::min()) || !std::isfinite(scale)) continue;
    const double error = squared_error<E>(x, n, scale, importance);
    if (error < least) least = error, best = scale;
  }
  return best;
}

}  // namespace

float decoded(Element element, int8_t code) {
  return dispatch(element, [&](auto e) { return decltype(e)::value(code); });
}

float minmax_scale(Element element, float absmax) {
  if (absmax == 0) return 1;
  if (element == Element::kE2M1) return power_scale(absmax);
  return dispatch(element, [&](auto e) {
    return std::max(absmax / decltype(e)::kMax, std::numeric_limits<float>::min());
  });
}

int8_t encode(Element element, float x, float scale) {
  return dispatch(element, [&](auto e) { return decltype(e)::code(x * (1 / scale)); });
}

float group_scale(const Rounding& rounding, const float* x, int64_t n, const float* importance) {
  const float absmax = std::bit_cast<float>(max_bits(x, n)), widest = minmax_scale(rounding.element, absmax);
  if (rounding.scales == Scales::kMinMax || absmax == 0) return stored(rounding, widest);
  return dispatch(rounding.element, [&](auto e) {
    return least_squares_scale<decltype(e)>(rounding, x, n, widest, importance);
  });
}

bool round_row(const Rounding& rounding, const float* x, int64_t k, int8_t* q, float* scales) {
  if (max_bits(x, k) >= 0x7f800000u) return false;
  const int64_t group = rounding.group > 0 ? rounding.group : k;
  dispatch(rounding.element, [&](auto e) {
    for (int64_t at = 0; at < k; at += group) {
      const float scale = group_scale(rounding, x + at, group);
      encode_group<decltype(e)>(x + at, group, scale, q + at);
      *scales++ = scale;
    }
  });
  return true;
}

}  // namespace octavo::quant
