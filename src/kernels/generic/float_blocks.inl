// Block formats with float activations. Include inside the folder's anonymous namespace, after vec.h,
// codes.inl and what the folder makes of activations:
//   Element                      of a prepared row: float or a BF16
//   Vec keep(const float* x, Element* to)    stores kLanes inputs; returns them as they will be multiplied
//   kOffsetInSum                 see below
//   kSplitRows                   see kRecordBytes
//   kDepth                       inputs unpacked at a time: with 256 8 KB, with scales at most 10, of L1
//   kE4m3Scale                   what FP8's scales are multiplied by (OwnPair)
//
// All codes become BF16, which holds them exactly: signed bytes, e4m3, and unsigned codes of b < 8 bits as
// 2^b + code, whose bits are those of the code below the exponent of 2^b. What is too much, 2^b and the
// format's kBias, is taken from each weight, or (kOffsetInSum) by what a sum starts at, -(2^b + kBias)
// sum(x): that is free, but several times the rounding errors of float32.
//
//   unpacked  kDepth inputs of a panel: BF16 [k / 2][16][2], float a and b [group][16]
//   prepared  a row: for each group what its sum starts at, sum(x), and the Elements
//   result = fold over groups, in rising order, of fma(b', sum(x), fma(sum, a, result)), with b' = b + kBias
//   a, where the format has a b; y = (addend + bias) + result

/// The BF16 of neighbours come out of one 32-bit lane.
constexpr int byte_of(int i) { return i == 1 ? 2 : i == 2 ? 1 : i; }

#include "kernels/generic/panel_blocks.inl"

using Ints = int32_t __attribute__((vector_size(kLanes * 4)));
using Floats = float __attribute__((vector_size(kLanes * 4)));

/// As plane_codes, of bytes `odd` and `odd` + 2 of the four of quad j, in 16 bits each.
template <int kBits, int kTo>
OCTAVO_INLINE Codes half_codes(const char* plane, int j, int odd, int lane) {
  return plane_lanes<kBits>(plane, j, lane, 8 * odd - kTo, kByteMask<kBits, kTo>);
}

/// The BF16 of two floats that are such, in one lane.
OCTAVO_INLINE Codes joined(Floats low, Floats high) {
  return (Codes)(((Ints)low >> 16 & 0xffff) | ((Ints)high & static_cast<int32_t>(0xffff0000u)));
}

/// The byte at the top of each lane.
template <Values kValues>
OCTAVO_INLINE Floats value_of_top(Ints x) {
  if constexpr (kValues == Values::kSigned) {
    return __builtin_convertvector(x >> 24, Floats);
  } else {
    // The exponent's bias is 120 more; subnormals too. Those are denormal here, which Intel's cores multiply
    // in 150 cycles: a normally distributed row scaled to 448 has one in 10^4. Arithmetic without them takes
    // ten instructions for these four.
    const Ints scaled = x >> 4 & static_cast<int32_t>(0x87f00000u);
    return (Floats)scaled * 0x1p120f;
  }
}

/// Byte i of each lane of quad j, in a format of whole bytes.
template <class F>
OCTAVO_INLINE Floats byte_value(const char* planes, int j, int i, int lane) {
  const Ints x = (Ints)quad_codes<F>(planes, j, lane);
  return value_of_top<F::kValues>(x << (24 - 8 * i));
}

/// A level's own way to pair_of(), with nothing too much (FP8's pairs times 1 / kE4m3Scale).
template <class F>
struct OwnPair {
  static constexpr bool kHas = false;
};

/// Inputs 2 u and 2 u + 1 of a chunk as BF16, `lane` bytes from the first column on.
template <class F>
OCTAVO_INLINE Codes pair_of(const char* planes, int u, int lane) {
  const int j = u / 2, odd = u % 2;
  if constexpr (OwnPair<F>::kHas) {
    return OwnPair<F>::get(planes, j, odd, lane);
  } else if constexpr (F::kValues != Values::kCodes) {
    return joined(byte_value<F>(planes, j, odd, lane), byte_value<F>(planes, j, odd + 2, lane));
  } else {
    constexpr int kTo = 7 - F::kBits;
    Codes x;
    if constexpr (F::kLookedUp) {
      x = quad_codes<F>(planes, j, lane) >> (8 * odd);
      x = (x & 0xff) << kTo;
    } else {
      x = half_codes<F::kLow, kTo>(planes, j, odd, lane);
      if constexpr (F::kHigh > 0)
        x |= half_codes<F::kHigh, F::kLow + kTo>(planes + kQuadBytes * F::kLow, j, odd, lane);
    }
    return x | static_cast<uint16_t>((127 + F::kBits) << 7);
  }
}

/// What a BF16 of pair_of() is too much.
template <class F>
constexpr float kTooMuch = F::kValues == Values::kCodes && !OwnPair<F>::kHas ? (1 << F::kBits) + F::kBias : 0;

/// One half of pair_of() as the weight's float.
template <class F>
OCTAVO_INLINE Floats exact_half(Codes pair, bool high) {
  const Ints bits = (Ints)pair;
  return (Floats)(high ? bits & static_cast<int32_t>(0xffff0000u) : bits << 16) - kTooMuch<F>;
}

/// As pair_of, less what is too much unless sums take it away.
template <class F>
OCTAVO_INLINE Codes stored_pair(const char* planes, int u, int lane) {
  const Codes pair = pair_of<F>(planes, u, lane);
  if constexpr (kOffsetInSum || kTooMuch<F> == 0) return pair;
  return joined(exact_half<F>(pair, false), exact_half<F>(pair, true));
}

struct Unpacked : UnpackedScales<kDepth / 16> {
  alignas(64) char codes[kDepth * kPanel * 2];
};

/// Chunks [c0, c1) of a panel.
template <class F>
void unpack(const char* panel, int64_t c0, int64_t c1, const LinearShape& shape, Unpacked& to) {
  unpack_units<F, kChunk / 2>(
      panel, c0, c1, shape, to, [](const char* planes, int u, int lane) __attribute__((always_inline)) {
        return stored_pair<F>(planes, u, lane);
      });
}

// ---- activations

struct GroupHeader {
  float start, sum;
};
OCTAVO_INLINE Vec start_of(const GroupHeader* header) { return broadcast(&header->start); }
OCTAVO_INLINE Vec value_of(Vec sum, const GroupHeader*) { return sum; }

/// Of a row: records of header and Elements; or (kSplitRows) all Elements, which then lie in whole lines, and
/// the headers behind them, in an odd number of lines so that rows do not share a set of L1.
template <int kGroup>
constexpr int kRecordBytes = static_cast<int>(sizeof(GroupHeader) + kGroup * sizeof(Element));

template <int kGroup>
int64_t row_bytes(const LinearShape& shape) {
  const int64_t lines = (shape.k / kGroup * kRecordBytes<kGroup> + 63) / 64;
  return (kSplitRows ? lines | 1 : lines) * 64;
}
template <class F>
size_t prepared_bytes(int64_t m, const LinearShape& shape) {
  return static_cast<size_t>(m * row_bytes<F::kGroup>(shape));
}

template <class F>
void prepare(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t, const LinearShape& shape,
             void* prepared) {
  for (int64_t row = m0; row < m1; ++row) {
    char* to = static_cast<char*>(prepared) + row * row_bytes<F::kGroup>(shape);
    const float* from = x + row * ldx;
    for (int64_t g = 0; g < shape.k / F::kGroup; ++g, from += F::kGroup) {
      char* record = to + g * kRecordBytes<F::kGroup>;
      auto* header = reinterpret_cast<GroupHeader*>(record);
      auto* elements = reinterpret_cast<Element*>(record + sizeof(GroupHeader));
      if constexpr (kSplitRows) {
        elements = reinterpret_cast<Element*>(to) + g * F::kGroup;
        header = reinterpret_cast<GroupHeader*>(reinterpret_cast<Element*>(to) + shape.k) + g;
      }
      Vec sum = zero();
      for (int i = 0; i < F::kGroup; i += kLanes) sum = sum + keep(from + i, elements + i);
      header->sum = reduce_add(sum);
      header->start = kOffsetInSum && kTooMuch<F> != 0 ? -kTooMuch<F> * header->sum : 0;
    }
  }
}
