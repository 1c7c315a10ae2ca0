// What linear_blocks.inl multiplies: floats. Include inside the folder's anonymous namespace, after vec.h and
// block_formats.inl.
using Element = float;         ///< of x, and of decoded weights
constexpr int kPart = kLanes;  ///< inputs in a vector

struct Inputs {  ///< x, rows of Elements
  const Element* first;
  int64_t ld;
};
Inputs inputs_of(const LinearRun& a) { return {a.x, a.ldx}; }

OCTAVO_INLINE Vec load_part(const Element* p) { return load(p); }
OCTAVO_INLINE void store_part(Element* p, Vec part) { store(p, part); }

/// A chunk's weights as vectors of Elements.
OCTAVO_INLINE void parts_of(const Vec (&w)[kVecsOfChunk], Vec (&parts)[kChunk / kPart]) {
#pragma GCC unroll 8
  for (int v = 0; v < kVecsOfChunk; ++v) parts[v] = w[v];
}
/// sum += x * w in each lane, where the compiler keeps its sums in registers.
OCTAVO_INLINE Vec multiply(Vec sum, Vec x, Vec w) { return fma(x, w, sum); }
/// The same where it does not.
OCTAVO_INLINE void multiply_into(Vec& sum, Vec x, Vec w) { fma_into(sum, x, w); }

size_t prepared_bytes(int64_t, const LinearShape&) { return 0; }
constexpr decltype(LinearKernel::prepare) kPrepare = nullptr;
