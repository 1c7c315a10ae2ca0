// Packed weights and prepared activations of the Q8A8 and Q4A8 formats (GGUF's Q8_0 and Q4_0 in int8
// arithmetic): both sides have a scale for every 32 inputs. Include inside the folder's anonymous namespace,
// after group_dot8.inl or group_dot4.inl (kBits, kQuad, kUnsigned, kPairs).
//
//   packed    a panel of 16 output columns: for each group float16 scales [16], then its weights: bytes
//             [32 / kQuad][16][kQuad], or of 4 bits as in int4.inl ([4][16][4], two nibbles each, q + 8);
//             as many bytes as the file's 16 blocks
//   prepared  a row: for each group its scale, what its sum starts at, and 32 values (int16 if kQuad is 2)
//
// kUnsigned: weights of 8 bits are stored as w + 128, for an instruction that multiplies unsigned by signed
// bytes; the sum of a group then starts at -128 * sum(x), which costs no instruction. (Activations + 128, as
// in int8.inl, would need the sum of every column's group: 12 % more weight to read.) Of 4 bits it starts at
// -8 * sum(x); with kPairs in two 16-bit lanes, see int4.inl.
//   result = fold over groups, in rising order, of fma(float(exact group sum) * x scale, w scale, result)
//   y = (addend + bias) + result

#include "kernels/generic/half.inl"

#include "kernels/generic/quantise.inl"

constexpr int kPanel = 16;
constexpr int kGroup = 32;
constexpr int kScaleBytes = kPanel * 2;
constexpr int kGroupBytes = kScaleBytes + kPanel * kGroup * kBits / 8;

struct GroupHeader {
  float scale;  ///< NaN if an element of the group is NaN or infinite
  int32_t start;
};
constexpr int kRecordBytes = static_cast<int>(sizeof(GroupHeader)) + kGroup * (kQuad == 2 ? 2 : 1);

int64_t panel_bytes(const LinearShape& shape) { return (shape.k / kGroup * kGroupBytes + 63) / 64 * 64; }
int64_t row_bytes(const LinearShape& shape) { return (shape.k / kGroup * kRecordBytes + 63) / 64 * 64; }

size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>((shape.n + kPanel - 1) / kPanel * panel_bytes(shape));
}
size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * row_bytes(shape));
}

/// The 32 weights of one column, to the body of its group.
void pack_group(const int8_t* q, int c, char* body) {
  for (int kk = 0; kk < kGroup; ++kk)
    if constexpr (kBits == 4)
      body[(kk / 8 * kPanel + c) * 4 + kk % 4] |= static_cast<char>((q[kk] + 8) << (kk % 8 < 4 ? 0 : 4));
    else
      body[(kk / kQuad * kPanel + c) * kQuad + kk % kQuad] =
          static_cast<char>(kUnsigned ? q[kk] ^ 0x80 : q[kk]);
}

void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t groups = shape.k / kGroup;
  for (int64_t first = n0; first < n1; first += kPanel) {
    char* panel = static_cast<char*>(packed) + first / kPanel * panel_bytes(shape);
    __builtin_memset(panel, 0, panel_bytes(shape));
    for (int c = 0; c < kPanel && first + c < n1; ++c) {
      const int64_t row = first + c - n0;
      for (int64_t g = 0; g < groups; ++g) {
        char* group = panel + g * kGroupBytes;
        reinterpret_cast<uint16_t*>(group)[c] = half_bits(rows.scales[row * groups + g]);
        pack_group(rows.q + row * shape.k + g * kGroup, c, group + kScaleBytes);
      }
    }
  }
}

/// Returns what the group's sums start at.
int32_t quantise_group(const float* x, RowScale scale, uint8_t* q) {
  if constexpr (kQuad == 2) {
    quantise_shorts(x, kGroup, scale, reinterpret_cast<int16_t*>(q));
    return 0;
  } else if constexpr (kPairs) {
    quantise_bytes(x, kGroup, scale, 0, q);
    return static_cast<int32_t>(minus_eight_sums(q));
  } else {
    constexpr int kOffset = kBits == 4 ? 8 : kUnsigned ? 128 : 0;
    return -kOffset * quantise_bytes(x, kGroup, scale, 0, q);
  }
}

void prepare_group(const float* x, const LinearShape& shape, GroupHeader* header) {
  const RowScale scale = row_scale(x, kGroup, shape);
  if (scale.finite) {
    header->scale = scale.scale;
    header->start = quantise_group(x, scale, reinterpret_cast<uint8_t*>(header + 1));
  } else {
    __builtin_memset(header, 0, kRecordBytes);
    header->scale = __builtin_nanf("");
  }
}

void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  for (int64_t row = m0; row < m1; ++row) {
    char* to = static_cast<char*>(prepared) + row * row_bytes(shape);
    for (int64_t at = 0; at < shape.k; at += kGroup, to += kRecordBytes)
      prepare_group(x + row * ldx + at, shape, reinterpret_cast<GroupHeader*>(to));
  }
}
