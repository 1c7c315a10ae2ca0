// 32 packed codes to floats, for block_formats.inl; every ISA folder has this file.
//
//   kCodeBias          what biased_codes() adds to every code
//   kNibbleBias        what nibble_weights() adds to linear codes without a min
//   element(p)         the element (0..31) whose code is stored in position p; planes are ordered by
//   position: nibble_plane       16 bytes: position p in the low nibble of byte p, 16 + p in the high one
//   pair_plane         8 bytes: position 8 j + i in bits 2j of byte i
//   bit_plane          4 bytes: position 4 l + i in bit l of byte i
//   join<s>(a, b)      a | b << s, each
//   biased_codes       codes below 128 to floats, in the order of elements
//   Table, looked_up   codes below 16 to the integers of a table
//   nibble_weights     a nibble plane to weights: table[code] * a (+ b with kAdd)
//   load_f16           kLanes float16s;  half_at: one
//   load_field<s, m>   kLanes bytes b as floats (b >> s & m)
//   load_split<m>      kLanes floats whose upper 16 bits stand in `high` and whose next 8, under mask m, in
//   `rest` load_half_e8m0     kLanes bytes e as 2^(e - 128) add_sums           y[0..3] += sums of four Vecs,
//   in a fixed order

constexpr int kCodeBias = 0, kNibbleBias = 0;

constexpr int element(int p) { return p; }

struct Bytes {
  uint8_t v[32];
};

OCTAVO_INLINE Bytes nibble_plane(const uint8_t* p) {
  Bytes out;
  for (int i = 0; i < 16; ++i) out.v[i] = p[i] & 15, out.v[16 + i] = p[i] >> 4;
  return out;
}
OCTAVO_INLINE Bytes pair_plane(const uint8_t* p) {
  Bytes out;
  for (int i = 0; i < 32; ++i) out.v[i] = p[i % 8] >> (i / 8 * 2) & 3;
  return out;
}
OCTAVO_INLINE Bytes bit_plane(const uint8_t* p) {
  Bytes out;
  for (int i = 0; i < 32; ++i) out.v[i] = p[i % 4] >> (i / 4) & 1;
  return out;
}
template <int kShift>
OCTAVO_INLINE Bytes join(Bytes low, Bytes high) {
  for (int i = 0; i < 32; ++i) low.v[i] = static_cast<uint8_t>(low.v[i] | high.v[i] << kShift);
  return low;
}
OCTAVO_INLINE void biased_codes(const Bytes& codes, Vec (&v)[8]) {
  for (int i = 0; i < 32; ++i) v[i / 4].v[i % 4] = static_cast<float>(codes.v[i]);
}

struct Table {
  float values[16];
  constexpr explicit Table(const int8_t (&from)[16]) : values() {
    for (int i = 0; i < 16; ++i) values[i] = from[i];
  }
};
OCTAVO_INLINE void looked_up(const Bytes& codes, const Table& table, Vec (&v)[8]) {
  for (int i = 0; i < 32; ++i) v[i / 4].v[i % 4] = table.values[codes.v[i]];
}

template <bool kLinear, bool kMin, bool kAdd>
OCTAVO_INLINE void nibble_weights(const uint8_t* p, const Table& table, Vec a, Vec b, Vec (&w)[8]) {
  looked_up(nibble_plane(p), table, w);
  for (Vec& x : w) x = kAdd ? fma(x, a, b) : x * a;
}

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

OCTAVO_INLINE void add_sums(float* y, Vec a, Vec b, Vec c, Vec d) {
  y[0] += reduce_add(a);
  y[1] += reduce_add(b);
  y[2] += reduce_add(c);
  y[3] += reduce_add(d);
}
