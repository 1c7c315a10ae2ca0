#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace octavo {
namespace {

/// Llama 3.1 (meta-llama/llama-models, apply_scaling): wavelengths longer than original/low are divided by
/// factor, shorter than original/high kept, and between them the two are mixed linearly in
/// original/wavelength.
double llama3_frequency(const RopeConfig& c, double frequency) {
  double wavelength = 2 * std::numbers::pi / frequency;
  double original = static_cast<double>(c.original_max_position);
  if (wavelength > original / c.low_freq_factor) return frequency / c.factor;
  if (wavelength < original / c.high_freq_factor) return frequency;
  double smooth = (original / wavelength - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
  return (1 - smooth) * frequency / c.factor + smooth * frequency;
}

/// YaRN (arXiv:2309.00071, section 3.2): the share of interpolation of frequency i, 0 where it turns more
/// than beta_fast times within the original length, 1 where less than beta_slow times.
class YarnRamp {
 public:
  YarnRamp(const RopeConfig& c, int rotary, double base) {
    low_ = dimension(c, rotary, base, c.beta_fast);
    high_ = dimension(c, rotary, base, c.beta_slow);
    if (c.truncate) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, rotary - 1.0);
    if (low_ == high_) high_ += 0.001;
  }
  double operator()(int i) const { return std::clamp((i - low_) / (high_ - low_), 0.0, 1.0); }

 private:
  /// The (fractional) frequency index that turns `rotations` times within the original length.
  static double dimension(const RopeConfig& c, int rotary, double base, double rotations) {
    double original = static_cast<double>(c.original_max_position);
    return rotary * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
  }
  double low_, high_;
};

/// NTK-aware scaling by length (reddit, /u/bloc97 and /u/emozilla): theta grows so that the longest
/// wavelength just fits.
double dynamic_base(const RopeConfig& c, int rotary, int64_t length) {
  double stretch =
      c.factor * static_cast<double>(length) / static_cast<double>(c.original_max_position) - (c.factor - 1);
  return c.theta * std::pow(stretch, rotary / (rotary - 2.0));
}

}  // namespace

int rotary_dims(const RopeConfig& config, int64_t head_dim) {
  return static_cast<int>(config.partial_rotary_factor * static_cast<double>(head_dim));
}

std::vector<float> rope_frequencies(const RopeConfig& config, int rotary, double base) {
  if (base <= 0) base = config.theta;
  YarnRamp ramp(config, rotary, base);
  std::vector<float> out(rotary / 2);
  for (int i = 0; i < rotary / 2; ++i) {
    double frequency = std::pow(base, -2.0 * i / rotary);
    if (config.type == RopeType::kLinear) frequency /= config.factor;
    if (config.type == RopeType::kLlama3) frequency = llama3_frequency(config, frequency);
    if (config.type == RopeType::kYarn) frequency *= ramp(i) / config.factor + (1 - ramp(i));
    if (!config.freq_factors.empty()) frequency /= config.freq_factors[i];
    out[i] = static_cast<float>(frequency);
  }
  return out;
}

RopeTable rope_table(OpContext& ctx, const RopeConfig& config, int64_t head_dim, int64_t positions) {
  RopeTable table;
  table.rotary = rotary_dims(config, head_dim);
  OCTAVO_CHECK(config.freq_factors.empty() ||
               config.freq_factors.size() * 2 == static_cast<size_t>(table.rotary));
  const int half = table.rotary / 2;
  table.cos.resize(positions * half);
  table.sin.resize(positions * half);
  const std::vector<float> fixed = rope_frequencies(config, table.rotary);
  const float factor = static_cast<float>(config.attention_factor);
  constexpr int64_t kRows = 256;  // positions of one piece
  ctx.team.run(static_cast<int>((positions + kRows - 1) / kRows), [&](int piece, int) {
    std::vector<float> stretched;
    for (int64_t p = piece * kRows; p < std::min(positions, (piece + 1) * kRows); ++p) {
      const std::vector<float>* frequencies = &fixed;
      if (config.type == RopeType::kDynamic && p >= config.original_max_position) {
        stretched = rope_frequencies(config, table.rotary, dynamic_base(config, table.rotary, p + 1));
        frequencies = &stretched;
      }
      for (int i = 0; i < half; ++i) {
        float angle = static_cast<float>(p) * (*frequencies)[i];
        table.cos[p * half + i] = std::cos(angle) * factor;
        table.sin[p * half + i] = std::sin(angle) * factor;
      }
    }
  });
  return table;
}

}  // namespace octavo
