#include "load/quant/int8_activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace octavo {
namespace {

using kernels::WeightFormat;

constexpr int64_t kBlock = 32, kBlockBytes = 18;  ///< of Q4_0: a float16 d and 16 bytes; (q - 8) d

/// Scratch holds k floats a row: k bytes of integers and, after those of all rows, the scales.
void read_q4_0(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
               kernels::WeightRows& rows) {
  const int64_t blocks = weight.k / kBlock;
  auto* q = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + (n1 - n0) * weight.k);
  rows.q = q;
  rows.scales = scales;
  const auto* from = reinterpret_cast<const uint8_t*>(weight.values.data) + n0 * blocks * kBlockBytes;
  for (int64_t b = 0; b < (n1 - n0) * blocks; ++b, from += kBlockBytes, q += kBlock) {
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    scales[b] = to_float(Float16{bits});
    for (int i = 0; i < 16; ++i) {
      q[i] = static_cast<int8_t>((from[2 + i] & 15) - 8);
      q[i + 16] = static_cast<int8_t>((from[2 + i] >> 4) - 8);
    }
  }
}

/// Whether x is exactly a float16.
bool is_half(float x) {
  const float magnitude = std::abs(x), subnormal = magnitude * 0x1p24f;
  if (magnitude < 0x1p-14f) return subnormal == std::floor(subnormal);
  return magnitude <= 65504.0f && (std::bit_cast<uint32_t>(x) & 0x1fffu) == 0;
}

}  // namespace

void note_half_scales(HostWeight& weight) {
  const float* scales = weight.scales.as<float>();
  weight.half_scales = std::all_of(scales, scales + weight.scales.shape.elements(), is_half);
}

void use_int8_activations(HostWeight& weight) {
  if (weight.reader && weight.format == WeightFormat::kW4A16) {
    note_half_scales(weight);
  } else if (!weight.reader && weight.values.dtype == DType::kQ4_0) {
    weight.reader = read_q4_0;
    weight.group = kBlock;
    weight.half_scales = true;
  } else {
    return;
  }
  weight.format = WeightFormat::kW4A8;
  weight.fits_kernel = true;
}

}  // namespace octavo
