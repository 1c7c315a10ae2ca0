#include "load/quant/int8_activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace octavo {
namespace {

using kernels::WeightFormat;

constexpr int64_t kBlock = 32;  ///< of Q4_0 and Q8_0: a float16 d and the integers

/// Scratch holds k floats a row: k bytes of integers and, after those of all rows, the scales.
template <int64_t kBytes, class Decode>
void read_blocks(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
                 kernels::WeightRows& rows, const Decode& decode) {
  const int64_t blocks = weight.k / kBlock;
  auto* q = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + (n1 - n0) * weight.k);
  rows.q = q;
  rows.scales = scales;
  const auto* from = reinterpret_cast<const uint8_t*>(weight.values.data) + n0 * blocks * kBytes;
  for (int64_t b = 0; b < (n1 - n0) * blocks; ++b, from += kBytes, q += kBlock) {
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    scales[b] = to_float(Float16{bits});
    decode(from + 2, q);
  }
}

/// 16 bytes of two nibbles: (q - 8) d
void read_q4_0(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
               kernels::WeightRows& rows) {
  read_blocks<18>(weight, n0, n1, scratch, rows, [](const uint8_t* from, int8_t* q) {
    for (int i = 0; i < 16; ++i) {
      q[i] = static_cast<int8_t>((from[i] & 15) - 8);
      q[i + 16] = static_cast<int8_t>((from[i] >> 4) - 8);
    }
  });
}

/// 32 signed bytes: q d
void read_q8_0(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
               kernels::WeightRows& rows) {
  read_blocks<34>(weight, n0, n1, scratch, rows,
                  [](const uint8_t* from, int8_t* q) { std::memcpy(q, from, kBlock); });
}

/// A plain block weight becomes integers and scales.
void use_reader(HostWeight& weight, HostWeight::Reader reader, WeightFormat format) {
  weight.reader = reader;
  weight.group = kBlock;
  weight.half_scales = true;
  weight.fits_kernel = true;
  weight.format = format;
}

/// Formats that kernels read as the file's blocks.
constexpr std::pair<DType, WeightFormat> kInt8Formats[] = {
    {DType::kQ4_1, WeightFormat::kQ4_1A8},   {DType::kQ5_0, WeightFormat::kQ5_0A8},
    {DType::kQ5_1, WeightFormat::kQ5_1A8},   {DType::kQ2_K, WeightFormat::kQ2_KA8},
    {DType::kQ3_K, WeightFormat::kQ3_KA8},   {DType::kQ4_K, WeightFormat::kQ4_KA8},
    {DType::kQ5_K, WeightFormat::kQ5_KA8},   {DType::kQ6_K, WeightFormat::kQ6_KA8},
    {DType::kMXFP4, WeightFormat::kMXFP4A8},
};

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
    weight.format = WeightFormat::kW4A8;
    weight.fits_kernel = true;
  }
}

void use_int8_blocks(HostWeight& weight) {
  if (weight.reader) return;
  if (weight.values.dtype == DType::kQ8_0) use_reader(weight, read_q8_0, WeightFormat::kQ8A8);
  if (weight.values.dtype == DType::kQ4_0) use_reader(weight, read_q4_0, WeightFormat::kQ4A8);
  for (const auto& [dtype, format] : kInt8Formats)
    if (weight.values.dtype == dtype) weight.format = format;
}

}  // namespace octavo
