// float16 without F16C. Include inside the folder's anonymous namespace.

/// Of a float that is a float16; subnormal ones included.
[[maybe_unused]] uint16_t half_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude >= 0x7f800000u)
    return static_cast<uint16_t>(sign | (magnitude > 0x7f800000u ? 0x7e00 : 0x7c00));
  if (magnitude >= 0x38800000u) return static_cast<uint16_t>(sign | (magnitude - 0x38000000u) >> 13);
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  return static_cast<uint16_t>(sign | mantissa >> (126 - (magnitude >> 23)));
}

[[maybe_unused]] float float_of_half(uint16_t half) {
  const uint32_t exponent = half >> 10 & 31u, mantissa = half & 0x3ffu;
  float magnitude;
  if (exponent == 31)
    magnitude = mantissa ? __builtin_nanf("") : __builtin_inff();
  else if (exponent)
    magnitude = static_cast<float>(mantissa + 1024) * 0x1p-25f * static_cast<float>(1u << exponent);
  else
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return half & 0x8000u ? -magnitude : magnitude;
}
