// Packed weights of formats whose weight is a code + b, with a and b of its group of 32 or 16 inputs. Include
// inside the folder's anonymous namespace, after vec.h and codes.inl, and
//   byte_of(i)    which of four bytes holds the code of input i of four
//   kE4m3Scale    what FP8's scales are multiplied by
// A format has kLow and kHigh bits of codes in its planes; its values need kBits (more than the codes where
// they are looked up) and are kBias too much, of which a weight's b knows nothing.
//
// A panel of 16 output columns is a run of superblocks: the head of their blocks and chunks. A chunk is 32
// inputs: scales, then planes of codes. Bytes [4][16] of codes of 4 inputs stand in the lowest bits of 64
// bytes, the next ones above them, in as many runs of 64 bytes as it takes; low bits, then high bits of
// codes. So one order serves all widths, and every format's products are the same.

#include "kernels/generic/gguf_layouts.inl"

constexpr int kPanel = 16;
constexpr int kChunk = 32;
constexpr int kQuadBytes = kPanel * 4;  ///< the codes of 4 inputs, as bytes

// ---- formats

/// What the codes of a format are, once they are bytes.
enum class Values : uint8_t {
  kCodes,   ///< unsigned, with a bias
  kSigned,  ///< signed integers of 8 bits
  kE4m3,
};

constexpr uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }

/// One row of a weight.
struct Source {
  const uint8_t* blocks;
  const int8_t *q, *zeros;
  const float* scales;
};

struct FormatDefaults {
  static constexpr Values kValues = Values::kCodes;
  static constexpr bool kLookedUp = false;  ///< codes of 4 bits stand for bytes of kTable
  static constexpr int kGroup = 32;         ///< inputs that share a and b
  static constexpr bool kMin = true;        ///< has a b
  static constexpr int kSuper = 0;          ///< chunks with one head; 0: those of the shape's group
  static constexpr int kHeadBytes = 0, kScaleBytes = 0;
  static void pack_head(const Source&, int64_t, int, char*) {}
  static void pack_scales(const Source&, int64_t, int, char*) {}
};

/// GGUF's blocks of 32.
template <class File_, int kLow_, int kHigh_, bool kMin_>
struct SmallBlocks : FormatDefaults {
  using File = File_;
  static constexpr const char* kName = File::kName;
  static constexpr int kLow = kLow_, kHigh = kHigh_, kBits = kLow + kHigh, kBias = 1 << (kBits - 1);
  static constexpr bool kMin = kMin_;
  static constexpr int kSuper = 1, kScaleBytes = kPanel * (kMin ? 4 : 2);
  static const uint8_t* block_of(const Source& row, int64_t chunk) {
    return row.blocks + chunk * File::kBytes;
  }
  static int code(const Source& row, int64_t chunk, int kk) { return File::code(block_of(row, chunk), kk); }
  static void pack_scales(const Source& row, int64_t chunk, int c, char* to) {
    const uint8_t* block = block_of(row, chunk);
    __builtin_memcpy(to + 2 * c, block + File::kD, 2);
    if constexpr (kMin) __builtin_memcpy(to + 2 * (kPanel + c), block + File::kM, 2);
  }
  /// a and b of kLanes columns from c on, in group g of the chunk.
  OCTAVO_INLINE static void scales(const uint8_t*, const uint8_t* chunk, int, int c, Vec& a, Vec& b) {
    a = load_f16(chunk + 2 * c);
    if constexpr (kMin) b = load_f16(chunk + 2 * (kPanel + c));
  }
};

/// Blocks of 256: a = d scale, b = -m min. Scales and minima are bytes; of groups of 16 they share one.
template <class File_, int kLow_, int kHigh_, int kGroup_, bool kMin_>
struct KBlocks : FormatDefaults {
  using File = File_;
  static constexpr const char* kName = File::kName;
  static constexpr int kLow = kLow_, kHigh = kHigh_, kBits = kLow + kHigh, kBias = 1 << (kBits - 1);
  static constexpr int kGroup = kGroup_;
  static constexpr bool kMin = kMin_, kShared = kMin && kGroup == 16;
  static constexpr int kSuper = 8, kHeadBytes = kPanel * (kMin ? 4 : 2);
  static constexpr int kScaleBytes = kPanel * (kMin || kGroup == 16 ? 2 : 1);
  static const uint8_t* block_of(const Source& row, int64_t super) {
    return row.blocks + super * File::kBytes;
  }
  static int code(const Source& row, int64_t chunk, int kk) {
    return File::code(block_of(row, chunk / kSuper), chunk % kSuper * kChunk + kk);
  }
  static void pack_head(const Source& row, int64_t super, int c, char* to) {
    const uint8_t* block = block_of(row, super);
    __builtin_memcpy(to + 2 * c, block + File::kD, 2);
    if constexpr (kMin) __builtin_memcpy(to + 2 * (kPanel + c), block + File::kM, 2);
  }
  static void pack_scales(const Source& row, int64_t chunk, int c, char* to) {
    const uint8_t* block = block_of(row, chunk / kSuper);
    for (int g = 0; g < kChunk / kGroup; ++g) {
      const int at = chunk % kSuper * (kChunk / kGroup) + g;
      int scale = File::scale(block, at);
      if constexpr (kShared) scale |= File::min(block, at) << 4;
      to[g * kPanel + c] = static_cast<char>(scale);
      if constexpr (kMin && !kShared) to[kPanel + c] = static_cast<char>(File::min(block, at));
    }
  }
  OCTAVO_INLINE static void scales(const uint8_t* head, const uint8_t* chunk, int g, int c, Vec& a, Vec& b) {
    const Vec d = load_f16(head + 2 * c);
    const uint8_t* at = chunk + g * kPanel + c;
    if constexpr (!kMin) {
      a = load_s8(reinterpret_cast<const int8_t*>(at)) * d;
    } else {
      const Vec m = zero() - load_f16(head + 2 * (kPanel + c));
      constexpr int kScaleMask = kShared ? 15 : 255;
      a = load_field<0, kScaleMask>(at) * d;
      if constexpr (kShared)
        b = load_field<4, 15>(at) * m;
      else
        b = load_field<0, 255>(at + kPanel) * m;
    }
  }
};

using Q4_0 = SmallBlocks<FileQ4_0, 4, 0, false>;
using Q4_1 = SmallBlocks<FileQ4_1, 4, 0, true>;
using Q5_0 = SmallBlocks<FileQ5_0, 4, 1, false>;
using Q5_1 = SmallBlocks<FileQ5_1, 4, 1, true>;
using Q2_K = KBlocks<FileQ2_K, 2, 0, 16, true>;
using Q3_K = KBlocks<FileQ3_K, 2, 1, 16, false>;
using Q4_K = KBlocks<FileQ4_K, 4, 0, 32, true>;
using Q5_K = KBlocks<FileQ5_K, 4, 1, 32, true>;
using Q6_K = KBlocks<FileQ6_K, 4, 2, 16, false>;

struct Q8_0 : SmallBlocks<FileQ8_0, 8, 0, false> {
  static constexpr Values kValues = Values::kSigned;
  static constexpr int kBias = 0;
};

/// kTable: the signed values, as bytes.
struct IQ4_NL : SmallBlocks<FileIQ4_NL, 4, 0, false> {
  static constexpr Values kValues = Values::kSigned;
  static constexpr int kBias = 0;
  static constexpr bool kLookedUp = true;
  alignas(16) static constexpr uint8_t kTable[16] = {129, 152, 173, 191, 207, 221, 234, 246,
                                                     1,   13,  25,  38,  53,  69,  89,  113};
};

/// Twice the values of FP4 and kBias more, times half of 2^(e - 127).
struct MXFP4 : FormatDefaults {
  static constexpr const char* kName = "mxfp4";
  static constexpr int kLow = 4, kHigh = 0, kBits = 5, kBias = 12;
  static constexpr bool kMin = false, kLookedUp = true;
  alignas(16) static constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                     12, 11, 10, 9,  8,  6,  4,  0};
  static constexpr int kSuper = 1, kScaleBytes = kPanel;
  static int code(const Source& row, int64_t chunk, int kk) {
    return row.blocks ? FileMXFP4::code(row.blocks + chunk * FileMXFP4::kBytes, kk)
                      : row.q[chunk * kChunk + kk];
  }
  static void pack_scales(const Source& row, int64_t chunk, int c, char* to) {
    to[c] = static_cast<char>(row.blocks ? row.blocks[chunk * FileMXFP4::kBytes]
                                         : bits_of(row.scales[chunk]) >> 23);
  }
  OCTAVO_INLINE static void scales(const uint8_t*, const uint8_t* chunk, int, int c, Vec& a, Vec&) {
    a = load_half_e8m0(chunk + c);
  }
};

// Integers and FP8 with a scale for each group of inputs: the head.

/// scale (q - zero): the upper 16 bits of the scale [16]; bytes [16] of its next 3 (19 are all of a float16
/// or bfloat16) above zero + 16 (zeros are -8..8).
struct W4A16 : FormatDefaults {
  static constexpr const char* kName = "w4a16";
  static constexpr int kLow = 4, kHigh = 0, kBits = 4, kBias = 8, kHeadBytes = kPanel * 3;
  static int code(const Source& row, int64_t chunk, int kk) { return row.q[chunk * kChunk + kk] + kBias; }
  static void pack_head(const Source& row, int64_t group, int c, char* to) {
    const uint32_t scale = bits_of(row.scales[group]), high = scale >> 16;
    const int zero = row.zeros ? row.zeros[group] : 0;
    __builtin_memcpy(to + 2 * c, &high, 2);
    to[2 * kPanel + c] = static_cast<char>((scale >> 8 & 0xe0) | static_cast<uint32_t>(zero + 16));
  }
  OCTAVO_INLINE static void scales(const uint8_t* head, const uint8_t*, int, int c, Vec& a, Vec& b) {
    const uint8_t* rest = head + 2 * kPanel + c;
    a = load_split<0xe0>(head + 2 * c, rest);
    b = a * (set1(16 - kBias) - load_field<0, 31>(rest));
  }
};

/// The same of weights that are all without a zero point.
struct SymmetricW4A16 : W4A16 {
  static constexpr bool kMin = false;
  OCTAVO_INLINE static void scales(const uint8_t* head, const uint8_t*, int, int c, Vec& a, Vec&) {
    a = load_split<0xe0>(head + 2 * c, head + 2 * kPanel + c);
  }
};

/// run<format>(), where the format is what the shape's weights have: zero points or none.
template <class F, class Run>
void run_symmetric(const LinearRun& a, const Run& run) {
  if constexpr (__is_same(F, W4A16))
    if (!a.shape.has_zeros) return run.template operator()<SymmetricW4A16>();
  run.template operator()<F>();
}

/// The upper 16 bits of the scale [16], bytes [16] of its next 8, the zeros [16].
struct W8A16 : FormatDefaults {
  static constexpr const char* kName = "w8a16";
  static constexpr Values kValues = Values::kSigned;
  static constexpr int kLow = 8, kHigh = 0, kBits = 8, kBias = 0, kHeadBytes = kPanel * 4;
  static int code(const Source& row, int64_t chunk, int kk) { return row.q[chunk * kChunk + kk]; }
  static void pack_head(const Source& row, int64_t group, int c, char* to) {
    const uint32_t scale = bits_of(row.scales[group]), high = scale >> 16;
    __builtin_memcpy(to + 2 * c, &high, 2);
    to[2 * kPanel + c] = static_cast<char>(scale >> 8);
    to[3 * kPanel + c] = static_cast<char>(row.zeros ? row.zeros[group] : 0);
  }
  OCTAVO_INLINE static void scales(const uint8_t* head, const uint8_t*, int, int c, Vec& a, Vec& b) {
    a = load_split<0xff>(head + 2 * c, head + 2 * kPanel + c);
    b = a * (zero() - load_s8(reinterpret_cast<const int8_t*>(head + 3 * kPanel + c)));
  }
};

/// The scale [16].
struct FP8 : FormatDefaults {
  static constexpr const char* kName = "fp8";
  static constexpr Values kValues = Values::kE4m3;
  static constexpr int kLow = 8, kHigh = 0, kBits = 8, kBias = 0, kHeadBytes = kPanel * 4;
  static constexpr bool kMin = false;
  static int code(const Source& row, int64_t chunk, int kk) { return row.q[chunk * kChunk + kk]; }
  static void pack_head(const Source& row, int64_t group, int c, char* to) {
    const float scale = row.scales[group] * kE4m3Scale;
    __builtin_memcpy(to + 4 * c, &scale, 4);
  }
  OCTAVO_INLINE static void scales(const uint8_t* head, const uint8_t*, int, int c, Vec& a, Vec&) {
    a = load(reinterpret_cast<const float*>(head) + c);
  }
};

/// The weight that a code of 4 bits stands for.
template <class F>
constexpr int nibble_value(int code) {
  if constexpr (!F::kLookedUp)
    return code - F::kBias;
  else
    return F::kValues == Values::kSigned ? static_cast<int8_t>(F::kTable[code]) : F::kTable[code] - F::kBias;
}

// ---- packing

template <class F>
constexpr int kChunkBytes = F::kScaleBytes + kQuadBytes*(F::kLow + F::kHigh);

/// Chunks that share a head.
template <class F>
int64_t super_chunks(const LinearShape& shape) {
  return F::kSuper ? F::kSuper : shape.group / kChunk;
}
template <class F>
int64_t super_bytes(const LinearShape& shape) {
  return F::kHeadBytes + super_chunks<F>(shape) * kChunkBytes<F>;
}
template <class F>
int64_t panel_bytes(const LinearShape& shape) {
  return (shape.k / (super_chunks<F>(shape) * kChunk) * super_bytes<F>(shape) + 63) / 64 * 64;
}
template <class F>
size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>((shape.n + kPanel - 1) / kPanel * panel_bytes<F>(shape));
}

/// The code of input kk of a chunk and column c, to a plane of kBits.
template <int kBits>
void put_code(int code, int kk, int c, char* plane) {
  constexpr int kQuads = 8 / kBits;  // in a byte
  const int quad = kk / 4;
  plane[quad / kQuads * kQuadBytes + c * 4 + byte_of(kk % 4)] |=
      static_cast<char>(code << (quad % kQuads * kBits));
}

template <class F>
void pack_chunk(const Source& row, int64_t chunk, int c, char* to) {
  F::pack_scales(row, chunk, c, to);
  to += F::kScaleBytes;
  for (int kk = 0; kk < kChunk; ++kk) {
    const int code = F::code(row, chunk, kk);
    put_code<F::kLow>(code & ((1 << F::kLow) - 1), kk, c, to);
    if constexpr (F::kHigh > 0) put_code<F::kHigh>(code >> F::kLow, kk, c, to + kQuadBytes * F::kLow);
  }
}

template <class F>
void pack_column(const Source& row, int c, const LinearShape& shape, char* panel) {
  const int64_t chunks = super_chunks<F>(shape), supers = shape.k / (chunks * kChunk);
  for (int64_t s = 0; s < supers; ++s, panel += super_bytes<F>(shape)) {
    F::pack_head(row, s, c, panel);
    for (int64_t i = 0; i < chunks; ++i)
      pack_chunk<F>(row, s * chunks + i, c, panel + F::kHeadBytes + i * kChunkBytes<F>);
  }
}

template <class F>
void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  for (int64_t first = n0; first < n1; first += kPanel) {
    char* panel = static_cast<char*>(packed) + first / kPanel * panel_bytes<F>(shape);
    __builtin_memset(panel, 0, panel_bytes<F>(shape));
    for (int c = 0; c < kPanel && first + c < n1; ++c) {
      const int64_t row = first + c - n0, groups = shape.k / shape.group;
      Source source{};
      if (rows.blocks)
        source.blocks = reinterpret_cast<const uint8_t*>(rows.blocks) + row * rows.block_row_bytes;
      if (rows.q) source.q = rows.q + row * shape.k;
      if (rows.scales) source.scales = rows.scales + row * groups;
      if (rows.zeros) source.zeros = rows.zeros + row * groups;
      pack_column<F>(source, c, shape, panel);
    }
  }
}

// ---- reading

using Codes = uint16_t __attribute__((vector_size(kLanes * 4)));

/// The 16-bit lanes of quad j in a plane of kBits, moved down by as many bits more than bring its codes to
/// bit 0, and masked; `lane` bytes from the first column on.
template <int kBits>
OCTAVO_INLINE Codes plane_lanes(const char* plane, int j, int lane, int more, int mask) {
  constexpr int kQuads = 8 / kBits;
  Codes x;
  __builtin_memcpy(&x, plane + j / kQuads * kQuadBytes + lane, sizeof x);
  const int shift = j % kQuads * kBits + more;
  x = shift >= 0 ? x >> shift : x << -shift;  // what crosses bytes is masked
  return x & static_cast<uint16_t>(mask);
}
template <int kBits, int kTo>
constexpr int kByteMask = ((1 << kBits) - 1) << kTo;

/// Its codes, at bit kTo of their bytes.
template <int kBits, int kTo>
OCTAVO_INLINE Codes plane_codes(const char* plane, int j, int lane) {
  return plane_lanes<kBits>(plane, j, lane, -kTo, kByteMask<kBits, kTo> * 0x101);
}

/// Codes of quad j of a chunk as bytes.
template <class F>
OCTAVO_INLINE Codes quad_codes(const char* planes, int j, int lane) {
  const Codes low = plane_codes<F::kLow, 0>(planes, j, lane);
  if constexpr (F::kLookedUp)
    return look_up(low, F::kTable);
  else if constexpr (F::kHigh == 0)
    return low;
  else
    return low | plane_codes<F::kHigh, F::kLow>(planes + kQuadBytes * F::kLow, j, lane);
}

/// a and b' of kLanes columns from c on, in group g of a chunk.
template <class F>
OCTAVO_INLINE void group_scales(const char* super, const char* chunk, int g, int c, Vec& a, Vec& b) {
  F::scales(reinterpret_cast<const uint8_t*>(super), reinterpret_cast<const uint8_t*>(chunk), g, c, a, b);
  if constexpr (F::kMin) b = a * set1(F::kBias) + b;
}

/// Scales of groups as floats.
template <int kGroups>
struct UnpackedScales {
  alignas(64) float a[kGroups][kPanel], b[kGroups][kPanel];
};

/// f(head, chunk) for chunks [c0, c1) of a panel.
template <class F, class Each>
OCTAVO_INLINE void each_chunk(const char* panel, int64_t c0, int64_t c1, const LinearShape& shape,
                              const Each& f) {
  const int64_t chunks = super_chunks<F>(shape);
  const char* head = panel + c0 / chunks * super_bytes<F>(shape);
  for (int64_t i = c0 % chunks, left = c1 - c0; left > 0; i = 0, head += super_bytes<F>(shape))
    for (; i < chunks && left > 0; ++i, --left) f(head, head + F::kHeadBytes + i * kChunkBytes<F>);
}

/// a and b' of a chunk's groups.
template <class F, int kGroups>
OCTAVO_INLINE void unpack_scales(const char* head, const char* chunk, int group,
                                 UnpackedScales<kGroups>& to) {
#pragma GCC unroll 2
  for (int g = 0; g < kChunk / F::kGroup; ++g)
#pragma GCC unroll 4
    for (int c = 0; c < kPanel; c += kLanes) {
      Vec a, b;
      group_scales<F>(head, chunk, g, c, a, b);
      store(to.a[group + g] + c, a);
      if constexpr (F::kMin) store(to.b[group + g] + c, b);
    }
}

/// Chunks [c0, c1) of a panel, each as kUnits times 64 bytes: unit(planes, u, lane) gives some of them.
template <class F, int kUnits, class Unpacked, class Unit>
OCTAVO_INLINE void unpack_units(const char* panel, int64_t c0, int64_t c1, const LinearShape& shape,
                                Unpacked& to, const Unit& unit) {
  int group = 0;
  char* codes = to.codes;
  each_chunk<F>(
      panel, c0, c1, shape, [&](const char* head, const char* chunk) __attribute__((always_inline)) {
        unpack_scales<F>(head, chunk, group, to);
#pragma GCC unroll 4
        for (int lane = 0; lane < kQuadBytes; lane += static_cast<int>(sizeof(Codes)))
#pragma GCC unroll 16
          for (int u = 0; u < kUnits; ++u) {
            const Codes x = unit(chunk + F::kScaleBytes, u, lane);
            __builtin_memcpy(codes + u * kQuadBytes + lane, &x, sizeof x);
          }
        group += kChunk / F::kGroup;
        codes += kUnits * kQuadBytes;
      });
}
