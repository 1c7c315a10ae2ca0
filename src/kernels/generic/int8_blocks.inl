// Packed weights and prepared activations of GGUF's block formats in int8 arithmetic: all with linear codes
// but Q8_0 and Q4_0 (int8_groups.inl). Include inside the folder's anonymous namespace, after vec.h,
// codes.inl and kPairs (products are summed in 16-bit lanes, two to a 32-bit lane: int4.inl).
//
// A weight is a code + b, with a and b of its group of 32 or 16 inputs; activations are int8 with a scale for
// every 32. Codes are multiplied as unsigned bytes; kBias of the format is taken away again by what a sum
// starts at, so that 16-bit lanes hold the sums of a group: |code - kBias| * 127 * (kGroup / 2) < 32768.
//
//   packed    a panel of 16 output columns: superblocks of the head of their blocks (float16 d [16], and m
//             [16]) and 8 chunks, or only chunks. A chunk is 32 inputs: scales, then planes of codes:
//             bytes [4][16] of codes of 4 inputs stand in the lowest bits of 64 bytes, the next ones above
//             them, in as many runs of 64 bytes as it takes; low bits, then high bits of codes
//   unpacked  512 inputs of a panel: codes as bytes [k / 4][16][4], float a and b [group][16]
//   prepared  a row: for each group its scale, what its sum starts at, scale * sum(x), and the int8 values
//   result = fold over groups, in rising order, of fma(b', x sum, fma(float(exact sum) * x scale, a, result))
//   with b' = b + kBias a, where the format has a b; y = (addend + bias) + result

#include "kernels/generic/gguf_layouts.inl"

#include "kernels/generic/quantise.inl"

constexpr int kPanel = 16;
constexpr int kChunk = 32;
constexpr int kQuadBytes = kPanel * 4;  ///< the codes of 4 inputs, as bytes
constexpr int kDepth = 512;             ///< inputs unpacked at a time: 8 KB, with scales at most 12 of L1

struct Unpacked {
  alignas(64) char codes[kDepth * kPanel];
  alignas(64) float a[kDepth / 16][kPanel], b[kDepth / 16][kPanel];
};

// ---- formats: kLow and kHigh bits of codes

/// Blocks of 32.
template <class File_, int kLow_, int kHigh_, bool kMin_>
struct SmallBlocks {
  using File = File_;
  static constexpr int kLow = kLow_, kHigh = kHigh_, kGroup = 32, kBias = 1 << (kLow + kHigh - 1);
  static constexpr bool kMin = kMin_;
  static constexpr int kSuper = 1, kHeadBytes = 0, kScaleBytes = kPanel * (kMin ? 4 : 2);
  static void pack_head(const uint8_t*, int, char*) {}
  static void pack_scales(const uint8_t* block, int, int c, char* to) {
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
struct KBlocks {
  using File = File_;
  static constexpr int kLow = kLow_, kHigh = kHigh_, kGroup = kGroup_, kBias = 1 << (kLow + kHigh - 1);
  static constexpr bool kMin = kMin_, kShared = kMin && kGroup == 16;
  static constexpr int kSuper = 8, kHeadBytes = kPanel * (kMin ? 4 : 2);
  static constexpr int kScaleBytes = kPanel * (kMin || kGroup == 16 ? 2 : 1);
  static void pack_head(const uint8_t* block, int c, char* to) {
    __builtin_memcpy(to + 2 * c, block + File::kD, 2);
    if constexpr (kMin) __builtin_memcpy(to + 2 * (kPanel + c), block + File::kM, 2);
  }
  static void pack_scales(const uint8_t* block, int chunk, int c, char* to) {
    for (int g = 0; g < kChunk / kGroup; ++g) {
      const int at = chunk * (kChunk / kGroup) + g;
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

using Q4_1 = SmallBlocks<FileQ4_1, 4, 0, true>;
using Q5_0 = SmallBlocks<FileQ5_0, 4, 1, false>;
using Q5_1 = SmallBlocks<FileQ5_1, 4, 1, true>;
using Q2_K = KBlocks<FileQ2_K, 2, 0, 16, true>;
using Q3_K = KBlocks<FileQ3_K, 2, 1, 16, false>;
using Q4_K = KBlocks<FileQ4_K, 4, 0, 32, true>;
using Q5_K = KBlocks<FileQ5_K, 4, 1, 32, true>;
using Q6_K = KBlocks<FileQ6_K, 4, 2, 16, false>;

// ---- packing

template <class F>
constexpr int kChunkBytes = F::kScaleBytes + kQuadBytes*(F::kLow + F::kHigh);
template <class F>
constexpr int kSuperBytes = F::kHeadBytes + F::kSuper* kChunkBytes<F>;

template <class F>
int64_t panel_bytes(const LinearShape& shape) {
  return (shape.k / (F::kSuper * kChunk) * kSuperBytes<F> + 63) / 64 * 64;
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
  plane[quad / kQuads * kQuadBytes + c * 4 + kk % 4] |= static_cast<char>(code << (quad % kQuads * kBits));
}

template <class F>
void pack_chunk(const uint8_t* block, int chunk, int c, char* to) {
  F::pack_scales(block, chunk, c, to);
  to += F::kScaleBytes;
  for (int kk = 0; kk < kChunk; ++kk) {
    const int code = F::File::code(block, chunk * kChunk + kk);
    put_code<F::kLow>(code & ((1 << F::kLow) - 1), kk, c, to);
    if constexpr (F::kHigh > 0) put_code<F::kHigh>(code >> F::kLow, kk, c, to + kQuadBytes * F::kLow);
  }
}

template <class F>
void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t supers = shape.k / (F::kSuper * kChunk);
  for (int64_t first = n0; first < n1; first += kPanel) {
    char* panel = static_cast<char*>(packed) + first / kPanel * panel_bytes<F>(shape);
    __builtin_memset(panel, 0, panel_bytes<F>(shape));
    for (int c = 0; c < kPanel && first + c < n1; ++c) {
      const auto* block =
          reinterpret_cast<const uint8_t*>(rows.blocks) + (first + c - n0) * rows.block_row_bytes;
      char* to = panel;
      for (int64_t s = 0; s < supers; ++s, block += F::File::kBytes, to += kSuperBytes<F>) {
        F::pack_head(block, c, to);
        for (int i = 0; i < F::kSuper; ++i)
          pack_chunk<F>(block, i, c, to + F::kHeadBytes + i * kChunkBytes<F>);
      }
    }
  }
}

// ---- unpacking

using Codes = uint16_t __attribute__((vector_size(kLanes * 4)));

/// Codes of quad j in a plane of kBits, at bit kTo of their bytes; `lane` bytes from the first column on.
template <int kBits, int kTo>
OCTAVO_INLINE Codes plane_codes(const char* plane, int j, int lane) {
  constexpr int kQuads = 8 / kBits;
  constexpr uint16_t kMask = ((1 << kBits) - 1) << kTo;
  Codes x;
  __builtin_memcpy(&x, plane + j / kQuads * kQuadBytes + lane, sizeof x);
  const int shift = j % kQuads * kBits - kTo;
  x = shift >= 0 ? x >> shift : x << -shift;  // what crosses bytes is masked
  return x & static_cast<uint16_t>(kMask | kMask << 8);
}

/// Codes of quad j of a chunk as bytes.
template <class F>
OCTAVO_INLINE Codes quad_codes(const char* planes, int j, int lane) {
  const Codes low = plane_codes<F::kLow, 0>(planes, j, lane);
  if constexpr (F::kHigh == 0)
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

template <class F>
const char* chunk_at(const char* panel, int64_t chunk) {
  return panel + chunk / F::kSuper * kSuperBytes<F> + F::kHeadBytes + chunk % F::kSuper * kChunkBytes<F>;
}

/// Chunks [c0, c1) of a panel.
template <class F>
void unpack(const char* panel, int64_t c0, int64_t c1, Unpacked& to) {
  int group = 0;
  for (int64_t chunk = c0; chunk < c1; ++chunk) {
    const char* super = panel + chunk / F::kSuper * kSuperBytes<F>;
    const char* from = chunk_at<F>(panel, chunk);
#pragma GCC unroll 2
    for (int g = 0; g < kChunk / F::kGroup; ++g, ++group)
#pragma GCC unroll 4
      for (int c = 0; c < kPanel; c += kLanes) {
        Vec a, b;
        group_scales<F>(super, from, g, c, a, b);
        store(to.a[group] + c, a);
        if constexpr (F::kMin) store(to.b[group] + c, b);
      }
    char* codes = to.codes + (chunk - c0) * kChunk * kPanel;
#pragma GCC unroll 4
    for (int lane = 0; lane < kQuadBytes; lane += static_cast<int>(sizeof(Codes)))
#pragma GCC unroll 8
      for (int j = 0; j < kChunk / 4; ++j) {
        const Codes x = quad_codes<F>(from + F::kScaleBytes, j, lane);
        __builtin_memcpy(codes + j * kQuadBytes + lane, &x, sizeof x);
      }
  }
}

// ---- activations

struct GroupHeader {
  float scale;  ///< NaN if one of the 32 is NaN or infinite
  int32_t start;
  float sum;
};
template <int kGroup>
constexpr int kRecordBytes = static_cast<int>(sizeof(GroupHeader)) + kGroup;

template <int kGroup>
int64_t row_bytes(const LinearShape& shape) {
  return (shape.k / kGroup * kRecordBytes<kGroup> + 63) / 64 * 64;
}
template <class F>
size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * row_bytes<F::kGroup>(shape));
}

template <class F>
void prepare_chunk(const float* x, const LinearShape& shape, char* to) {
  const RowScale scale = row_scale(x, kChunk, shape);
  uint8_t q[kChunk] = {};
  if (scale.finite) quantise_bytes(x, kChunk, scale, 0, q);
  for (int at = 0; at < kChunk; at += F::kGroup, to += kRecordBytes<F::kGroup>) {
    const PairSums sums = pair_sums<F::kGroup>(q + at);
    GroupHeader header{scale.finite ? scale.scale : __builtin_nanf(""), -F::kBias * (sums.low + sums.high),
                       0};
    if constexpr (kPairs) header.start = static_cast<int32_t>(pair_start(sums, F::kBias));
    header.sum = header.scale * static_cast<float>(sums.low + sums.high);
    __builtin_memcpy(to, &header, sizeof header);
    __builtin_memcpy(to + sizeof header, q + at, F::kGroup);
  }
}

template <class F>
void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  for (int64_t row = m0; row < m1; ++row) {
    char* to = static_cast<char*>(prepared) + row * row_bytes<F::kGroup>(shape);
    for (int64_t at = 0; at < shape.k; at += kChunk, to += kChunk / F::kGroup * kRecordBytes<F::kGroup>)
      prepare_chunk<F>(x + row * ldx + at, shape, to);
  }
}
