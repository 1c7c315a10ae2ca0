// Scales and codes of packed panels (generic/panel_blocks.inl); every ISA folder has this file.
//
//   load_f16           kLanes float16s
//   load_field<s, m>   kLanes bytes b as floats (b >> s & m)
//   load_split<m>      kLanes floats whose upper 16 bits stand in `high` and whose next 8, under mask m, in
//                      `rest`
//   load_half_e8m0     kLanes bytes e as 2^(e - 128)
//   look_up            bytes below 16 to those of an aligned table

OCTAVO_INLINE float half_at(const uint8_t* p) {
  const uint32_t bits = p[0] | p[1] << 8, sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return __builtin_bit_cast(float, sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  const float scaled = __builtin_bit_cast(float, magnitude << 13) * 0x1p112f;  // bias 127, not 15
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, scaled) | sign);
}
OCTAVO_INLINE Vec load_f16(const uint8_t* p) {
  return {Float4{half_at(p), half_at(p + 2), half_at(p + 4), half_at(p + 6)}};
}

template <int kShift, int kMask>
OCTAVO_INLINE Vec load_field(const uint8_t* p) {
  Vec out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = static_cast<float>(p[i] >> kShift & kMask);
  return out;
}
template <int kMask>
OCTAVO_INLINE Vec load_split(const uint8_t* high, const uint8_t* rest) {
  UInt4 bits;
  for (int i = 0; i < kLanes; ++i)
    bits[i] = static_cast<uint32_t>(high[2 * i + 1] << 24 | high[2 * i] << 16 | (rest[i] & kMask) << 8);
  return {(Float4)bits};
}
OCTAVO_INLINE Vec load_half_e8m0(const uint8_t* p) {
  UInt4 bits;
  for (int i = 0; i < kLanes; ++i)  // the first two are subnormal
    bits[i] = p[i] < 2 ? 0x00200000u << p[i] : (uint32_t{p[i]} - 1) << 23;
  return {(Float4)bits};
}

template <class Codes>
OCTAVO_INLINE Codes look_up(Codes codes, const uint8_t* table) {
  for (int i = 0; i < static_cast<int>(sizeof codes / 2); ++i)
    codes[i] = static_cast<uint16_t>(table[codes[i] & 15] | table[codes[i] >> 8 & 15] << 8);
  return codes;
}
