// Decoded weights of block formats as pairs of BF16, for the levels that multiply those: a vector is 32
// inputs, a chunk. Include inside the folder's anonymous namespace, after block_formats.inl.
using Element = uint16_t;      ///< of prepared x, and of decoded weights
constexpr int kPart = kChunk;  ///< inputs in a vector

OCTAVO_INLINE Vec load_part(const Element* p) { return {_mm512_loadu_ps(p)}; }
OCTAVO_INLINE void store_part(Element* p, Vec part) { _mm512_storeu_ps(p, part.v); }

/// A chunk's weights, rounded to nearest even.
OCTAVO_INLINE void parts_of(const Vec (&w)[kVecsOfChunk], Vec (&parts)[1]) {
  parts[0] = {_mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(w[1].v, w[0].v))};
}
