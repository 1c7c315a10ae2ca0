// Float32 rows to the canonical integers and scales of a weight format (kernels::WeightRows), round to
// nearest: what --quantization does at load and `octavo quantize` when it writes.
#pragma once

#include <cstdint>

namespace octavo::quant {

/// What a code (an int8_t of WeightRows::q) stands for. Its value is decoded(code) * scale of its group.
enum class Element : uint8_t {
  kInt8,  ///< -128..127, scale absmax / 127: the row's extremes are +-127, so no value saturates
  kInt4,  ///< -8..7, scale absmax / 7.5 (compressed-tensors'): the positive extreme loses half a step
  kE4M3,  ///< the bits of an FP8 e4m3fn (arXiv 2209.05433), scale absmax / 448
  kE2M1,  ///< 0..15, FP4 with its sign in bit 3; scale a power of two (OCP Microscaling Formats 1.0, 6.3)
};

enum class Scales : uint8_t {
  kMinMax,  ///< from the largest magnitude
  kMse,     ///< the one of a grid of smaller scales that leaves the least squared error
};

/// What scales are rounded to before the codes are found, because that is how they will be held.
enum class ScaleFormat : uint8_t { kF32, kF16, kBF16 };

struct Rounding {
  Element element = Element::kInt8;
  int64_t group = 0;  ///< inputs that share a scale; 0: all of a row
  Scales scales = Scales::kMinMax;
  ScaleFormat scale_format = ScaleFormat::kF32;  ///< ignored for kE2M1, whose scales are powers of two
};

/// The value of a code, without its scale.
float decoded(Element element, int8_t code);

/// The scale that Scales::kMinMax gives a group of this largest magnitude; 1 for 0.
float minmax_scale(Element element, float absmax);

/// The scale of one group x [n] of finite values. `importance` [n] weighs the squared errors of Scales::kMse;
/// null: all alike.
float group_scale(const Rounding& rounding, const float* x, int64_t n, const float* importance = nullptr);

/// The code nearest to x / scale, ties to even, saturating.
int8_t encode(Element element, float x, float scale);

/// x [k] -> q [k] codes, scales [k / group] (k a multiple of it). False, and nothing of use, if x holds a NaN
/// or infinity.
bool round_row(const Rounding& rounding, const float* x, int64_t k, int8_t* q, float* scales);

}  // namespace octavo::quant
