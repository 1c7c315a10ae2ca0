// Compiled with -ffp-contract=off: a fused multiply-add would round once where the reference rounds twice.
#include "load/quant/gguf_blocks.h"

#include <bit>
#include <cstring>

namespace octavo {
namespace {

float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return to_float(Float16{bits});
}

float signed_at(const uint8_t* p) { return static_cast<float>(static_cast<int8_t>(*p)); }

/// Element i of 32 whose low halves stand in the low nibbles of 16 bytes, then the high nibbles.
int nibble(const uint8_t* q, int i) { return (q[i % 16] >> (i / 16 * 4)) & 15; }

/// Element i of 256 in 64 bytes of 2-bit fields: each run of 32 bytes holds four runs of 32 elements.
int two_bits(const uint8_t* q, int i) { return (q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3; }

// h d, 16 q: (q - 8) d
void q4_0(const uint8_t* b, float* out) {
  float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(b + 2, i) - 8);
}

// h d, h m, 16 q: q d + m
void q4_1(const uint8_t* b, float* out) {
  float d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(b + 4, i)) + m;
}

int five_bits(const uint8_t* high, const uint8_t* q, int i) {
  return nibble(q, i) | ((high[i / 8] >> (i % 8)) & 1) << 4;
}

// h d, 4 fifth bits, 16 q: (q - 16) d
void q5_0(const uint8_t* b, float* out) {
  float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(b + 2, b + 6, i) - 16);
}

// h d, h m, 4 fifth bits, 16 q: q d + m
void q5_1(const uint8_t* b, float* out) {
  float d = half_at(b), m = half_at(b + 2);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(five_bits(b + 4, b + 8, i)) + m;
}

// h d, 32 signed q: q d
void q8_0(const uint8_t* b, float* out) {
  float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = signed_at(b + 2 + i) * d;
}

// 16 of (scale, min << 4), 64 q, h d, h dmin: q (d scale) - dmin min, groups of 16
void q2_k(const uint8_t* b, float* out) {
  const uint8_t *scales = b, *q = b + 16;
  float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int i = 0; i < 256; ++i) {
    uint8_t both = scales[i / 16];
    float scale = d * static_cast<float>(both & 15), min = dmin * static_cast<float>(both >> 4);
    out[i] = scale * static_cast<float>(two_bits(q, i)) - min;
  }
}

// 32 third bits (set: no offset), 64 q, 12 of packed six-bit scales (offset 32), h d; groups of 16
void q3_k(const uint8_t* b, float* out) {
  const uint8_t *high = b, *q = b + 32, *packed = b + 96;
  float d = half_at(b + 108);
  for (int i = 0; i < 256; ++i) {
    int g = i / 16;
    int low = (packed[g % 8] >> (g / 8 * 4)) & 15, top = (packed[8 + g % 4] >> (g / 4 * 2)) & 3;
    float scale = d * static_cast<float>((low | top << 4) - 32);
    int offset = (high[i % 32] >> (i / 32)) & 1 ? 0 : 4;
    out[i] = scale * static_cast<float>(two_bits(q, i) - offset);
  }
}

/// Scale and min of group g of 8, six bits each, from the 12 bytes of the K formats: the first four of each
/// lie whole in bytes 0-3 and 4-7, whose upper two bits complete the last four with the nibbles of bytes
/// 8-11.
void scale_and_min(const uint8_t* p, int g, float& scale, float& min) {
  if (g < 4) {
    scale = static_cast<float>(p[g] & 63);
    min = static_cast<float>(p[g + 4] & 63);
  } else {
    scale = static_cast<float>((p[g + 4] & 15) | (p[g - 4] >> 6 << 4));
    min = static_cast<float>((p[g + 4] >> 4) | (p[g] >> 6 << 4));
  }
}

// h d, h dmin, 12 packed scales and mins, 128 q: q (d scale) - dmin min, groups of 32; each run of 32 bytes
// holds the low nibbles of one group, then the high ones of the next
void q4_k(const uint8_t* b, float* out) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int g = 0; g < 8; ++g) {
    float scale, min;
    scale_and_min(b + 4, g, scale, min);
    scale *= d, min *= dmin;
    const uint8_t* q = b + 16 + g / 2 * 32;
    for (int i = 0; i < 32; ++i)
      out[g * 32 + i] = scale * static_cast<float>((q[i] >> (g % 2 * 4)) & 15) - min;
  }
}

// as Q4_K with 32 bytes of fifth bits (bit g of byte i: element i of group g) before q
void q5_k(const uint8_t* b, float* out) {
  float d = half_at(b), dmin = half_at(b + 2);
  const uint8_t* high = b + 16;
  for (int g = 0; g < 8; ++g) {
    float scale, min;
    scale_and_min(b + 4, g, scale, min);
    scale *= d, min *= dmin;
    const uint8_t* q = b + 48 + g / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int value = ((q[i] >> (g % 2 * 4)) & 15) | ((high[i] >> g) & 1) << 4;
      out[g * 32 + i] = scale * static_cast<float>(value) - min;
    }
  }
}

// 128 low nibbles, 64 upper two bits, 16 signed scales, h d: (q - 32) (d scale), groups of 16; per half of
// 128 elements 64 bytes of nibbles (low ones first) and 32 of upper bits
void q6_k(const uint8_t* b, float* out) {
  const uint8_t *low = b, *high = b + 128, *scales = b + 192;
  float d = half_at(b + 208);
  for (int i = 0; i < 256; ++i) {
    int nibbles = (low[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4)) & 15;
    int value = (nibbles | two_bits(high, i) << 4) - 32;
    out[i] = d * signed_at(scales + i / 16) * static_cast<float>(value);
  }
}

// h d, 16 q: table[q] d
void iq4_nl(const uint8_t* b, float* out) {
  static constexpr float kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  float d = half_at(b);
  for (int i = 0; i < 32; ++i) out[i] = d * kTable[nibble(b + 2, i)];
}

// e, 16 q: fp4(q) 2^(e - 127). The table holds twice the values, so that the scale is half: for e < 2 a
// subnormal.
void mxfp4(const uint8_t* b, float* out) {
  static constexpr float kTable[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  uint32_t e = b[0];
  float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (int i = 0; i < 32; ++i) out[i] = d * kTable[nibble(b + 1, i)];
}

template <void (*decode)(const uint8_t*, float*), int kBytes, int kElements>
void run(const uint8_t* from, int64_t blocks, float* out) {
  for (int64_t i = 0; i < blocks; ++i) decode(from + i * kBytes, out + i * kElements);
}

}  // namespace

BlockDecoder block_decoder(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return run<q4_0, 18, 32>;
    case DType::kQ4_1:
      return run<q4_1, 20, 32>;
    case DType::kQ5_0:
      return run<q5_0, 22, 32>;
    case DType::kQ5_1:
      return run<q5_1, 24, 32>;
    case DType::kQ8_0:
      return run<q8_0, 34, 32>;
    case DType::kQ2_K:
      return run<q2_k, 84, 256>;
    case DType::kQ3_K:
      return run<q3_k, 110, 256>;
    case DType::kQ4_K:
      return run<q4_k, 144, 256>;
    case DType::kQ5_K:
      return run<q5_k, 176, 256>;
    case DType::kQ6_K:
      return run<q6_k, 210, 256>;
    case DType::kIQ4_NL:
      return run<iq4_nl, 18, 32>;
    case DType::kMXFP4:
      return run<mxfp4, 17, 32>;
    default:
      return nullptr;
  }
}

}  // namespace octavo
