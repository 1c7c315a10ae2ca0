// The BF16 KV cache for products of pairs (VDPBF16PS, TDPBF16PS), K and V as they lie in memory. Include
// inside an anonymous namespace, after generic/attention.inl.
struct KvBF16Dot : KvBF16 {
  static constexpr bool kDot = true;
  static OCTAVO_INLINE Vec packs(const uint16_t* p) { return {_mm512_loadu_ps(p)}; }
  static OCTAVO_INLINE void add_products(Vec& sum, Vec a, Vec b) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  }
  /// Members [begin, end) of each pack, +0 for the others.
  static OCTAVO_INLINE Vec members_between(Vec x, int begin, int end) {
    const uint32_t mask = (begin <= 0 ? 0xffffu : 0) | (end > 1 ? 0xffff0000u : 0);
    return {_mm512_and_ps(x.v, _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(mask))))};
  }
  /// Values [begin, end), multiples of kTile, to packs in the first half of the row.
  static OCTAVO_INLINE void pack(float* row, int begin, int end) {
    for (int i = begin; i < end; i += kLanes) {
      const __m256bh half = _mm512_cvtneps_pbh(load(row + i).v);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(reinterpret_cast<uint16_t*>(row) + i), (__m256i)half);
    }
  }
};
