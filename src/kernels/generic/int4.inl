// Packed weights and prepared activations of the W4A8 format, one layout for all ISA folders. Include inside
// the folder's anonymous namespace, after `kPairs` (products are summed in 16-bit lanes, two to a 32-bit
// lane).
//
//   packed    a panel of 16 output columns: for each group its scales (float16 or float32 [16]), its zero
//             points if any (int16 [16]), then its chunks. A chunk is 32 k: bytes [4][16][4], byte j of
//             column c in unit u holds k = 8u + j in its low and k = 8u + 4 + j in its high nibble, as q + 8.
//             One load, a mask and a shift thus give two operands of unsigned bytes for a multiply of
//             unsigned by signed bytes.
//   prepared  a row: RowHeader, a record of 36 bytes for each chunk, and the sum of each group (int32). A
//             record is what its products start at, then the 32 values.
//
// An unsigned weight is 8 too large, so the products of a group would come out 8 * sum(x) too large. They
// start at minus that instead, which costs no instruction. With kPairs each of the two 16-bit lanes starts at
// -8 times the sum of the x that it is going to multiply: inside a chunk it never leaves +-16384, and ends as
// the exact sum of its 16 products (q in -8..7, x in -128..127). Thirty-two k are thus summed before anything
// is widened. Without kPairs the first record of a group starts the whole group.

#include "kernels/generic/half.inl"

#include "kernels/generic/quantise.inl"

constexpr int kPanel = 16;
constexpr int kChunk = 32;
constexpr int kRecord = 9;  ///< 32-bit units of a record
constexpr int kChunkBytes = kPanel * kChunk / 2;

struct alignas(64) RowHeader {
  float scale;  ///< NaN if an element is NaN or infinite
};

struct Layout {
  int64_t groups,
      chunks;           ///< chunks of a group: the last is filled up where k has no groups and is no multiple
  int64_t zeros, body;  ///< where in a group zero points and chunks start
  int64_t group_bytes, panel_bytes, row_bytes;
};

Layout layout(const LinearShape& shape) {
  Layout l;
  l.groups = shape.k / shape.group;
  l.chunks = (shape.group + kChunk - 1) / kChunk;
  l.zeros = kPanel * (shape.half_scales ? 2 : 4);
  l.body = l.zeros + (shape.has_zeros ? kPanel * 2 : 0);
  l.group_bytes = l.body + l.chunks * kChunkBytes;
  l.panel_bytes = (l.groups * l.group_bytes + 63) / 64 * 64;
  const int64_t units = l.groups * l.chunks * kRecord + l.groups;
  l.row_bytes = static_cast<int64_t>(sizeof(RowHeader)) + (units * 4 + 63) / 64 * 64;
  return l;
}

size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>((shape.n + kPanel - 1) / kPanel * layout(shape).panel_bytes);
}
[[maybe_unused]] size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * layout(shape).row_bytes);
}

/// One column of a panel.
void pack_column(const int8_t* q, const float* scales, const int8_t* zeros, const LinearShape& shape,
                 const Layout& l, int c, char* panel) {
  for (int64_t g = 0; g < l.groups; ++g) {
    char* group = panel + g * l.group_bytes;
    if (shape.half_scales)
      reinterpret_cast<uint16_t*>(group)[c] = half_bits(scales[g]);
    else
      reinterpret_cast<float*>(group)[c] = scales[g];
    if (shape.has_zeros) reinterpret_cast<int16_t*>(group + l.zeros)[c] = zeros ? zeros[g] : 0;
    uint8_t* body = reinterpret_cast<uint8_t*>(group + l.body) + c * 4;
    const int8_t* from = q + g * shape.group;
    for (int64_t kk = 0; kk < shape.group; ++kk)
      body[kk / 8 * kPanel * 4 + kk % 4] |= static_cast<uint8_t>((from[kk] + 8) << (kk % 8 < 4 ? 0 : 4));
  }
}

void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const Layout l = layout(shape);
  for (int64_t first = n0; first < n1; first += kPanel) {
    char* panel = static_cast<char*>(packed) + first / kPanel * l.panel_bytes;
    __builtin_memset(panel, 0, l.panel_bytes);
    for (int c = 0; c < kPanel && first + c < n1; ++c) {
      const int64_t row = first + c - n0;
      pack_column(rows.q + row * shape.k, rows.scales + row * l.groups,
                  rows.zeros ? rows.zeros + row * l.groups : nullptr, shape, l, c, panel);
    }
  }
}

/// Quantises the first `count` values of a chunk and fills it with zeros; returns minus_eight_sums().
uint32_t prepare_chunk(const float* x, int64_t count, RowScale scale, uint8_t* q) {
  quantise_bytes(x, count, scale, 0, q);
  for (int64_t kk = count; kk < kChunk; ++kk) q[kk] = 0;
  return minus_eight_sums(q);
}
#if defined(__AVX2__)
OCTAVO_INLINE uint32_t prepare_whole_chunk(const float* x, const Quantiser& quantiser, uint8_t* q) {
  __m256i unused = _mm256_setzero_si256();
  const __m256i values = quantiser.bytes(x, unused);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), values);
  return minus_eight_sums(values);
}
#endif

void prepare_row(const float* x, const LinearShape& shape, const Layout& l, void* to) {
  RowHeader* header = static_cast<RowHeader*>(to);
  const RowScale scale = row_scale(x, shape.k, shape);
  header->scale = scale.finite ? scale.scale : __builtin_nanf("");
#if defined(__AVX2__)
  const Quantiser quantiser(scale);
#endif
  uint32_t* record = reinterpret_cast<uint32_t*>(header + 1);
  int32_t* totals = reinterpret_cast<int32_t*>(record + l.groups * l.chunks * kRecord);
  for (int64_t g = 0; g < l.groups; ++g) {
    int32_t total = 0;  // -8 times the sum
    for (int64_t at = 0; at < shape.group; at += kChunk, record += kRecord) {
      const int64_t left = shape.group - at, count = left < kChunk ? left : kChunk;
      const float* from = x + g * shape.group + at;
      uint8_t* q = reinterpret_cast<uint8_t*>(record + 1);
      uint32_t start;
#if defined(__AVX2__)
      if (count == kChunk && scale.finite)
        start = prepare_whole_chunk(from, quantiser, q);
      else
#endif
        start = prepare_chunk(from, scale.finite ? count : 0, scale, q);
      total += static_cast<int16_t>(start) + static_cast<int16_t>(start >> 16);
      record[0] = kPairs ? start : 0;
    }
    if (!kPairs) record[-l.chunks * kRecord] = static_cast<uint32_t>(total);  // the group's first
    totals[g] = total / -8;
  }
}

[[maybe_unused]] void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t,
                              const LinearShape& shape, void* prepared) {
  const Layout l = layout(shape);
  for (int64_t row = m0; row < m1; ++row)
    prepare_row(x + row * ldx, shape, l, static_cast<char*>(prepared) + row * l.row_bytes);
}
