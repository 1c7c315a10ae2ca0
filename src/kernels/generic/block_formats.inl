// Weight-only formats: how a row is packed, and how its weights come out. Include after vec.h and codes.inl,
// inside the anonymous namespace of the ISA.
//
// A packed row is a run of superblocks of 256 inputs (8 chunks of 32; the last one may have fewer):
//   header   scales of its chunks
//   payload  kBytes of the format's Plane for each chunk
// Grouping the scales of eight chunks, which GGUF's 18- to 34-byte blocks keep apart, lets one instruction
// convert them all; the size stays the same. Each weight is one rounding of
//   code * a + b      (or code * a without kAdd)
// with a and b of its group: a code has at most 8 bits and every product but FP8's is exact, so that it is
// the very float that dequantisation gives (load/quant/gguf_blocks.cc, and (q - zero) * scale).

constexpr int kChunk = 32, kSuperChunks = 8, kVecsOfChunk = kChunk / kLanes;

/// log2 of the chunks that share a scale, at most a superblock.
int group_shift(const LinearShape& shape) {
  return shape.group <= 32 ? 0 : shape.group == 64 ? 1 : shape.group == 128 ? 2 : 3;
}

/// a and b of a superblock: one for every chunk (two with kGroup = 16), or for every group.
struct Scales {
  alignas(64) float a[16], b[16];
};

// ---- planes: 32 codes as bits

/// Four bits.
struct Nibbles {
  static constexpr int kBytes = 16;
  static void store(const uint8_t* q, uint8_t* out) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>(q[element(i)] | q[element(16 + i)] << 4);
  }
};

/// Two bits.
struct Pairs {
  static constexpr int kBytes = 8;
  static void store(const uint8_t* q, uint8_t* out) {
    for (int i = 0; i < 8; ++i) {
      int bits = 0;
      for (int j = 0; j < 4; ++j) bits |= q[element(8 * j + i)] << (2 * j);
      out[i] = static_cast<uint8_t>(bits);
    }
  }
  [[gnu::always_inline]] static Bytes load(const uint8_t* p) { return pair_plane(p); }
};

struct Bits {
  static constexpr int kBytes = 4;
  static void store(const uint8_t* q, uint8_t* out) {
    for (int i = 0; i < 4; ++i) {
      int bits = 0;
      for (int l = 0; l < 8; ++l) bits |= q[element(4 * l + i)] << l;
      out[i] = static_cast<uint8_t>(bits);
    }
  }
};

/// `Low` and above them `High`.
template <class Low, class High, int kLowBits>
void store_joined(const uint8_t* q, uint8_t* out) {
  uint8_t low[kChunk], high[kChunk];
  for (int i = 0; i < kChunk; ++i) low[i] = q[i] & ((1 << kLowBits) - 1), high[i] = q[i] >> kLowBits;
  Low::store(low, out);
  High::store(high, out + Low::kBytes);
}
struct ThreeBits {
  static constexpr int kBytes = 12;
  static void store(const uint8_t* q, uint8_t* out) { store_joined<Pairs, Bits, 2>(q, out); }
  [[gnu::always_inline]] static Bytes load(const uint8_t* p) {
    return join<2>(pair_plane(p), bit_plane(p + 8));
  }
};
struct FiveBits {
  static constexpr int kBytes = 20;
  static void store(const uint8_t* q, uint8_t* out) { store_joined<Nibbles, Bits, 4>(q, out); }
  [[gnu::always_inline]] static Bytes load(const uint8_t* p) {
    return join<4>(nibble_plane(p), bit_plane(p + 16));
  }
};
struct SixBits {
  static constexpr int kBytes = 24;
  static void store(const uint8_t* q, uint8_t* out) { store_joined<Nibbles, Pairs, 4>(q, out); }
  [[gnu::always_inline]] static Bytes load(const uint8_t* p) {
    return join<4>(nibble_plane(p), pair_plane(p + 16));
  }
};

/// Bytes as they are.
struct Int8 {
  static constexpr int kBytes = 32;
  static void store(const uint8_t* q, uint8_t* out) { __builtin_memcpy(out, q, kBytes); }
  [[gnu::always_inline]] static Vec value(const uint8_t* p) {
    return load_s8(reinterpret_cast<const int8_t*>(p));
  }
};
struct E4m3 : Int8 {
  [[gnu::always_inline]] static Vec value(const uint8_t* p) { return load_e4m3(p); }  // times 2^-8
};

// ---- weights of a chunk

constexpr int8_t kLinearValues[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // doubled
constexpr Table kLinearTable(kLinearValues), kIq4Table(kIq4Values), kFp4Table(kFp4Values);

/// What most formats have in common.
struct FormatDefaults {
  static constexpr int kGroup = 32;    ///< weights that share a and b
  static constexpr bool kMin = false;  ///< b is a minimum of its own, not a multiple of a
  static constexpr bool kAdd = true;
  static constexpr bool kLinear = true;
  static constexpr bool kGrouped = false;  ///< scales of 1 to 8 chunks each: see Grouped
  static constexpr const Table& kTable = kLinearTable;
};

template <class P>
constexpr bool kIsNibbles = false;
template <>
constexpr bool kIsNibbles<Nibbles> = true;
template <class P>
constexpr bool kIsBytes = false;
template <>
constexpr bool kIsBytes<Int8> = true;
template <>
constexpr bool kIsBytes<E4m3> = true;

/// The weights of a chunk, with the scales at c.
template <class F>
[[gnu::always_inline]] inline void chunk_weights(const uint8_t* p, const Scales& s, int c,
                                                 Vec (&w)[kVecsOfChunk]) {
  using P = typename F::Plane;
  constexpr int kGroups = kChunk / F::kGroup, kVecsOfGroup = kVecsOfChunk / kGroups;
  if constexpr (kIsNibbles<P>) {
    const Vec b = F::kAdd ? broadcast(s.b + c) : zero();
    nibble_weights<F::kLinear, F::kMin, F::kAdd>(p, F::kTable, broadcast(s.a + c), b, w);
    return;
  } else if constexpr (kIsBytes<P>) {
#pragma GCC unroll 8
    for (int i = 0; i < kVecsOfChunk; ++i) w[i] = P::value(p + i * kLanes);
  } else {
    biased_codes(P::load(p), w);
    if constexpr (F::kMin && kCodeBias != 0)
      for (Vec& x : w) x = x - set1(kCodeBias);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kVecsOfChunk; ++i) {
    const int g = c * kGroups + i / kVecsOfGroup;
    w[i] = F::kAdd ? fma(w[i], broadcast(s.a + g), broadcast(s.b + g)) : w[i] * broadcast(s.a + g);
  }
}

// ---- headers

/// float16 d for each chunk: d (code - kOffset); kOffset counts the bias of the codes.
template <int kOffset>
struct OneHalf : FormatDefaults {
  static constexpr bool kAdd = kOffset != 0;
  static int64_t header_bytes(int chunks, int) { return 2 * chunks; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int, int, Scales& s) {
    for (int i = 0; i < kSuperChunks; i += kLanes) {
      const Vec d = load_f16(h + 2 * i);
      store(s.a + i, d);
      if (kAdd) store(s.b + i, d * set1(-kOffset));
    }
  }
  static void pack_scale(const uint8_t* block, int chunk, int, uint8_t* h) {
    __builtin_memcpy(h + 2 * chunk, block, 2);
  }
};

/// float16 d for each chunk, then m: d code + m.
struct TwoHalves : FormatDefaults {
  static constexpr bool kMin = true;
  static int64_t header_bytes(int chunks, int) { return 4 * chunks; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int chunks, int, Scales& s) {
    for (int i = 0; i < kSuperChunks; i += kLanes) {
      store(s.a + i, load_f16(h + 2 * i));
      store(s.b + i, load_f16(h + 2 * (chunks + i)));
    }
  }
  static void pack_scale(const uint8_t* block, int chunk, int chunks, uint8_t* h) {
    __builtin_memcpy(h + 2 * chunk, block, 2);
    __builtin_memcpy(h + 2 * (chunks + chunk), block + 2, 2);
  }
};

/// A chunk's codes from element `first` of a block on.
template <class F>
void pack_codes(const uint8_t* block, int first, uint8_t* to) {
  uint8_t q[kChunk];
  for (int i = 0; i < kChunk; ++i) q[i] = static_cast<uint8_t>(F::code(block, first + i));
  F::Plane::store(q, to);
}

/// GGUF's blocks of 32.
template <class F>
void pack_blocks(const WeightRows& row, int64_t super, int chunks, const LinearShape&, uint8_t* out) {
  const uint8_t* from = reinterpret_cast<const uint8_t*>(row.blocks) + super * kSuperChunks * F::kBytes;
  uint8_t* payload = out + F::header_bytes(chunks, 0);
  for (int c = 0; c < chunks; ++c, from += F::kBytes) {
    F::pack_scale(from, c, chunks, out);
    pack_codes<F>(from, 0, payload + c * F::Plane::kBytes);
  }
}

/// And of 256.
template <class F>
void pack_k(const WeightRows& row, int64_t super, int, const LinearShape&, uint8_t* out) {
  const uint8_t* block = reinterpret_cast<const uint8_t*>(row.blocks) + super * F::kBytes;
  F::pack_scales(block, out);
  out += F::header_bytes(kSuperChunks, 0);
  for (int c = 0; c < kSuperChunks; ++c) pack_codes<F>(block, c * kChunk, out + c * F::Plane::kBytes);
}

#include "kernels/generic/gguf_layouts.inl"

// ---- GGUF, blocks of 32

struct Q4_0 : OneHalf<8 + kNibbleBias>, FileQ4_0 {
  using Plane = Nibbles;
  static constexpr auto pack = pack_blocks<Q4_0>;
};
struct Q4_1 : TwoHalves, FileQ4_1 {
  using Plane = Nibbles;
  static constexpr auto pack = pack_blocks<Q4_1>;
};
struct Q5_0 : OneHalf<16 + kCodeBias>, FileQ5_0 {
  using Plane = FiveBits;
  static constexpr auto pack = pack_blocks<Q5_0>;
};
struct Q5_1 : TwoHalves, FileQ5_1 {
  using Plane = FiveBits;
  static constexpr auto pack = pack_blocks<Q5_1>;
};
struct Q8_0 : OneHalf<0>, FileQ8_0 {
  using Plane = Int8;
  static constexpr auto pack = pack_blocks<Q8_0>;
};
struct IQ4_NL : OneHalf<0>, FileIQ4_NL {
  using Plane = Nibbles;
  static constexpr bool kLinear = false;
  static constexpr const Table& kTable = kIq4Table;
  static constexpr auto pack = pack_blocks<IQ4_NL>;
};

/// A byte e for each chunk: table[code] 2^(e - 128), the table being doubled.
struct MXFP4 : FormatDefaults, FileMXFP4 {
  using Plane = Nibbles;
  static constexpr bool kAdd = false, kLinear = false;
  static constexpr const Table& kTable = kFp4Table;
  static int64_t header_bytes(int chunks, int) { return chunks; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int, int, Scales& s) {
    for (int i = 0; i < kSuperChunks; i += kLanes) store(s.a + i, load_half_e8m0(h + i));
  }
  static void pack_scale(const uint8_t* block, int chunk, int, uint8_t* h) { h[chunk] = block[0]; }
  static void pack(const WeightRows& row, int64_t super, int chunks, const LinearShape& shape, uint8_t* out) {
    if (row.blocks) return pack_blocks<MXFP4>(row, super, chunks, shape, out);
    for (int c = 0; c < chunks; ++c) {
      const int64_t at = super * kSuperChunks + c;
      uint32_t scale;
      __builtin_memcpy(&scale, row.scales + at, 4);
      out[c] = static_cast<uint8_t>(scale >> 23);
      Plane::store(reinterpret_cast<const uint8_t*>(row.q) + at * kChunk, out + chunks + c * Plane::kBytes);
    }
  }
};

// ---- GGUF, blocks of 256

/// Header of Q4_K and Q5_K: h d, h dmin, then 8 scales and 8 mins as bytes (20 bytes where the file has 16):
/// d scale code - dmin min.
struct ScaledMins : FormatDefaults {
  static constexpr bool kMin = true;
  static int64_t header_bytes(int, int) { return 20; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int, int, Scales& s) {
    const Vec d = set1(half_at(h)), dmin = set1(-half_at(h + 2));
    for (int i = 0; i < kSuperChunks; i += kLanes) {
      store(s.a + i, load_field<0, 255>(h + 4 + i) * d);
      store(s.b + i, load_field<0, 255>(h + 12 + i) * dmin);
    }
  }
  static void pack_scales(const uint8_t* block, uint8_t* h) {
    __builtin_memcpy(h, block, 4);
    for (int g = 0; g < 8; ++g) {
      h[4 + g] = static_cast<uint8_t>(FileScaledMins::scale(block, g));
      h[12 + g] = static_cast<uint8_t>(FileScaledMins::min(block, g));
    }
  }
};
struct Q4_K : ScaledMins, FileQ4_K {
  using Plane = Nibbles;
  static constexpr auto pack = pack_k<Q4_K>;
};
struct Q5_K : ScaledMins, FileQ5_K {
  using Plane = FiveBits;
  static constexpr auto pack = pack_k<Q5_K>;
};

/// h d, h dmin, 16 bytes of (scale, min << 4): d scale code - dmin min.
struct Q2_K : FormatDefaults, FileQ2_K {
  using Plane = Pairs;
  static constexpr int kGroup = 16;
  static constexpr bool kMin = true;
  static int64_t header_bytes(int, int) { return 20; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int, int, Scales& s) {
    const Vec d = set1(half_at(h)), dmin = set1(-half_at(h + 2));
    for (int i = 0; i < 2 * kSuperChunks; i += kLanes) {
      store(s.a + i, load_field<0, 15>(h + 4 + i) * d);
      store(s.b + i, load_field<4, 15>(h + 4 + i) * dmin);
    }
  }
  static void pack_scales(const uint8_t* block, uint8_t* h) {
    __builtin_memcpy(h, block + 80, 4);
    __builtin_memcpy(h + 4, block, 16);
  }
  static constexpr auto pack = pack_k<Q2_K>;
};

/// Header of Q3_K and Q6_K: h d, 16 signed scales: d scale (code - kOffset).
template <int kOffset>
struct SignedScales : FormatDefaults {
  static constexpr int kGroup = 16;
  static int64_t header_bytes(int, int) { return 18; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int, int, Scales& s) {
    const Vec d = set1(half_at(h));
    for (int i = 0; i < 2 * kSuperChunks; i += kLanes) {
      const Vec a = load_s8(reinterpret_cast<const int8_t*>(h + 2 + i)) * d;
      store(s.a + i, a);
      store(s.b + i, a * set1(-kOffset));
    }
  }
};
template <class File>
void pack_signed_scales(const uint8_t* block, uint8_t* h) {
  __builtin_memcpy(h, block + File::kD, 2);
  for (int g = 0; g < 16; ++g) h[2 + g] = static_cast<uint8_t>(File::scale(block, g));
}
struct Q3_K : SignedScales<4 + kCodeBias>, FileQ3_K {
  using Plane = ThreeBits;
  static constexpr auto pack_scales = pack_signed_scales<FileQ3_K>;
  static constexpr auto pack = pack_k<Q3_K>;
};
struct Q6_K : SignedScales<32 + kCodeBias>, FileQ6_K {
  using Plane = SixBits;
  static constexpr auto pack_scales = pack_signed_scales<FileQ6_K>;
  static constexpr auto pack = pack_k<Q6_K>;
};

// ---- integers and FP8 with scales of groups (32, 64, 128, or a multiple of 256)

/// Header: an entry for each group of the superblock, all first bytes of them first, and so on. A group has
/// 2^shift chunks; one of 256 and more inputs has an entry in each of its superblocks.
template <class F>
struct Grouped : FormatDefaults {
  static constexpr bool kGrouped = true;
  static int entries(int chunks, int shift) { return (chunks + (1 << shift) - 1) >> shift; }
  static int64_t header_bytes(int chunks, int shift) { return entries(chunks, shift) * F::kEntryBytes; }
  [[gnu::always_inline]] static void scales(const uint8_t* h, int chunks, int shift, Scales& s) {
    for (int i = 0; i < kSuperChunks; i += kLanes) {
      Vec a, b;
      F::get(h, entries(chunks, shift), i, a, b);
      store(s.a + i, a);
      if (F::kAdd) store(s.b + i, b);
    }
  }
  static void pack(const WeightRows& row, int64_t super, int chunks, const LinearShape& shape, uint8_t* out) {
    const int64_t k0 = super * kSuperChunks * kChunk;
    const int shift = group_shift(shape), count = entries(chunks, shift);
    for (int e = 0; e < count; ++e) {
      const int64_t g = k0 / shape.group + e;
      F::put(row.scales[g], row.zeros ? row.zeros[g] : 0, out, count, e);
    }
    out += count * F::kEntryBytes;
    for (int c = 0; c < chunks; ++c) {
      uint8_t q[kChunk];
      for (int i = 0; i < kChunk; ++i)
        q[i] = static_cast<uint8_t>(row.q[k0 + c * kChunk + i] + F::kStoredMore);
      F::Plane::store(q, out + c * F::Plane::kBytes);
    }
  }
};

[[gnu::always_inline]] inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }

/// Entry, 24 bits: the upper 16 of the scale; the next 3 (19 are all of a float16 or bfloat16) above zero +
/// 16 (zeros are -8..8). scale (q - zero).
struct W4A16 : Grouped<W4A16> {
  using Plane = Nibbles;
  static constexpr const char* kName = "w4a16";
  static constexpr int kEntryBytes = 3, kStoredMore = 8;
  static void put(float scale, int zero, uint8_t* h, int count, int e) {
    const uint16_t high = static_cast<uint16_t>(bits_of(scale) >> 16);
    __builtin_memcpy(h + 2 * e, &high, 2);
    h[2 * count + e] = static_cast<uint8_t>((bits_of(scale) >> 8 & 0xe0) | static_cast<uint32_t>(zero + 16));
  }
  [[gnu::always_inline]] static void get(const uint8_t* h, int count, int at, Vec& a, Vec& b) {
    const uint8_t* rest = h + 2 * count + at;
    a = load_split<0xe0>(h + 2 * at, rest);
    b = a * (set1(16 - 8 - kNibbleBias) - load_field<0, 31>(rest));
  }
};

/// Entry, 32 bits: the upper 16 of the scale, the next 8, the zero. scale (q - zero).
struct W8A16 : Grouped<W8A16> {
  using Plane = Int8;
  static constexpr const char* kName = "w8a16";
  static constexpr int kEntryBytes = 4, kStoredMore = 0;
  static void put(float scale, int zero, uint8_t* h, int count, int e) {
    const uint16_t high = static_cast<uint16_t>(bits_of(scale) >> 16);
    __builtin_memcpy(h + 2 * e, &high, 2);
    h[2 * count + e] = static_cast<uint8_t>(bits_of(scale) >> 8);
    h[3 * count + e] = static_cast<uint8_t>(zero);
  }
  [[gnu::always_inline]] static void get(const uint8_t* h, int count, int at, Vec& a, Vec& b) {
    a = load_split<0xff>(h + 2 * at, h + 2 * count + at);
    b = a * (zero() - load_s8(reinterpret_cast<const int8_t*>(h + 3 * count + at)));
  }
};

/// Entry: the scale, times the 2^8 that load_e4m3 leaves.
struct FP8 : Grouped<FP8> {
  using Plane = E4m3;
  static constexpr const char* kName = "fp8";
  static constexpr bool kAdd = false;
  static constexpr int kEntryBytes = 4, kStoredMore = 0;
  static void put(float scale, int, uint8_t* h, int, int e) {
    scale *= 256;
    __builtin_memcpy(h + 4 * e, &scale, 4);
  }
  [[gnu::always_inline]] static void get(const uint8_t* h, int, int at, Vec& a, Vec& b) {
    a = load(reinterpret_cast<const float*>(h) + at);
    b = zero();
  }
};
