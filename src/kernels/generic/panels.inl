// Packed layout of the float formats, shared by all ISA folders: panels of 16 output columns, k-major inside
// a panel.
//   F32   panel[k][16]
//   BF16  panel[k / 2][16][2]: the two k of a pair share a 32-bit lane, so that widening is a shift (even k)
//   or a mask
//         (odd k) without a permutation; the last pair of an odd k has a zero.
// Columns past n are zero. Include inside an anonymous namespace of octavo::kernels::<isa>.

constexpr int kPanel = 16;

struct PackF32 {
  using Unit = float;               ///< one column's weight of one k step
  static constexpr int kDepth = 1;  ///< k values a Unit holds
  static Unit unit(const float* row, int64_t kk, int64_t k) { return row[kk]; }
};

/// Round to nearest even; NaN stays NaN. (base/dtype.h's is an inline function, which must not appear in
/// kernel objects.)
uint32_t round_bf16(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

struct PackBF16 {
  using Unit = uint32_t;
  static constexpr int kDepth = 2;
  static Unit unit(const float* row, int64_t kk, int64_t k) {
    uint32_t odd = 2 * kk + 1 < k ? round_bf16(row[2 * kk + 1]) : 0;
    return round_bf16(row[2 * kk]) | odd << 16;
  }
};

/// Units of one panel.
template <class Pack>
int64_t panel_units(int64_t k) {
  return (k + Pack::kDepth - 1) / Pack::kDepth * kPanel;
}

template <class Pack>
size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>((shape.n + kPanel - 1) / kPanel) * panel_units<Pack>(shape.k) *
         sizeof(typename Pack::Unit);
}

template <class Pack>
void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t k = shape.k;
  using Unit = typename Pack::Unit;
  const int64_t depth = panel_units<Pack>(k) / kPanel;
  for (int64_t first = n0; first < n1; first += kPanel) {
    Unit* panel = static_cast<Unit*>(packed) + first / kPanel * panel_units<Pack>(k);
    for (int c = 0; c < kPanel; ++c) {
      const float* row = first + c < n1 ? rows.values + (first + c - n0) * k : nullptr;
      for (int64_t kk = 0; kk < depth; ++kk) panel[kk * kPanel + c] = row ? Pack::unit(row, kk, k) : Unit{};
    }
  }
}

/// prepared_bytes of kernels that read x itself. (A lambda in a namespace-scope table would be a weak
/// symbol.)
[[maybe_unused]] size_t nothing_prepared(int64_t, const LinearShape&) { return 0; }
