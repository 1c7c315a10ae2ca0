// Element types of tensors as files hold them, and the scalar conversions between float formats.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace octavo {

/// Plain types first, then GGUF's block types (a block is the smallest addressable unit of those).
enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kE8M0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kMXFP4,
};
inline constexpr int kNumDTypes = static_cast<int>(DType::kMXFP4) + 1;

struct DTypeInfo {
  std::string_view name;  ///< safetensors' name ("BF16") or GGUF's ("Q4_K")
  int block_elements;     ///< elements of a block; 1 for plain types
  int block_bytes;
};
const DTypeInfo& info(DType type);
inline std::string_view name(DType type) { return info(type).name; }

/// Storage formats of float16 and bfloat16; arithmetic is always in float.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

/// Round to nearest even; NaN stays NaN.
inline BFloat16 to_bf16(float x) {
  uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float to_float(Float16 x) {
  uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  // Shifted into float's fields the exponent is 112 too small; a multiplication mends that for subnormals as
  // well.
  float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | sign);
}

}  // namespace octavo
