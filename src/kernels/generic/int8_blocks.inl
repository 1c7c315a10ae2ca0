// GGUF's block formats in int8 arithmetic: all but Q8_0 and Q4_0, which have kernels of their own (one tile
// for all formats costs Q4_0 7 to 20 %; int8_groups.inl), and IQ4_NL, whose values of 8 bits 16-bit lanes
// cannot sum. Include inside the folder's anonymous namespace, after vec.h, codes.inl and kPairs (products
// are summed in 16-bit lanes, two to a 32-bit lane: int4.inl).
//
// Activations are int8 with a scale for every 32. Codes are multiplied as unsigned bytes; kBias of the format
// is taken away again by what a sum starts at, so that 16-bit lanes hold the sums of a group:
// |code - kBias| * 127 * (kGroup / 2) < 32768.
//
//   unpacked  512 inputs of a panel: codes as bytes [k / 4][16][4], float a and b [group][16]
//   prepared  a row: for each group its scale, what its sum starts at, scale * sum(x), and the int8 values
//   result = fold over groups, in rising order, of fma(b', x sum, fma(float(exact sum) * x scale, a, result))
//   with b' = b + kBias a, where the format has a b; y = (addend + bias) + result

constexpr int byte_of(int i) { return i; }
constexpr float kE4m3Scale = 1;

#include "kernels/generic/panel_blocks.inl"

#include "kernels/generic/quantise.inl"

constexpr int kDepth = 512;  ///< inputs unpacked at a time: 8 KB, with scales at most 12 of L1

struct Unpacked : UnpackedScales<kDepth / 16> {
  alignas(64) char codes[kDepth * kPanel];
};

/// Chunks [c0, c1) of a panel.
template <class F>
void unpack(const char* panel, int64_t c0, int64_t c1, const LinearShape& shape, Unpacked& to) {
  unpack_units<F, kChunk / 4>(
      panel, c0, c1, shape, to, [](const char* planes, int u, int lane) __attribute__((always_inline)) {
        return quad_codes<F>(planes, u, lane);
      });
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
