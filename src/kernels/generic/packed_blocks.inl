// Packing weight-only rows (block_formats.inl) and decoding them, for any way to multiply
// (float_products.inl). Include inside the folder's anonymous namespace, after those.

constexpr int kParts = kChunk / kPart;  ///< vectors of a chunk

template <class F>
int64_t super_bytes(int chunks, const LinearShape& shape) {
  return F::header_bytes(chunks, group_shift(shape)) + chunks * F::Plane::kBytes;
}
template <class F>
int64_t row_bytes(const LinearShape& shape) {
  const int64_t chunks = shape.k / kChunk;
  const int rest = static_cast<int>(chunks % kSuperChunks);
  return chunks / kSuperChunks * super_bytes<F>(kSuperChunks, shape) +
         (rest ? super_bytes<F>(rest, shape) : 0);
}

/// Loads may reach past a row's end, into the next row or this.
constexpr int64_t kPadding = 64;

template <class F>
size_t packed_bytes(const LinearShape& shape) {
  return static_cast<size_t>(shape.n * row_bytes<F>(shape) + kPadding);
}

template <class F>
void pack(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed) {
  const int64_t bytes = row_bytes<F>(shape), chunks = shape.k / kChunk, groups = shape.k / shape.group;
  WeightRows row = rows;
  for (int64_t n = n0; n < n1; ++n) {
    uint8_t* out = static_cast<uint8_t*>(packed) + n * bytes;
    for (int64_t c = 0; c < chunks; c += kSuperChunks) {
      const int count = static_cast<int>(chunks - c < kSuperChunks ? chunks - c : kSuperChunks);
      F::pack(row, c / kSuperChunks, count, shape, out);
      out += super_bytes<F>(count, shape);
    }
    if (row.blocks) row.blocks += row.block_row_bytes;
    if (row.q) row.q += shape.k;
    if (row.scales) row.scales += groups;
    if (row.zeros) row.zeros += groups;
  }
  if (n1 == shape.n) __builtin_memset(static_cast<uint8_t*>(packed) + n1 * bytes, 0, kPadding);
}

/// store(column, chunk - first, parts) for chunks [first, end) of columns [n, n + count). Columns past n1
/// repeat the last.
template <class F, class Store>
OCTAVO_INLINE void decode(const LinearRun& a, int64_t n, int count, int64_t first, int64_t end,
                          const Store& store) {
  const int64_t bytes = row_bytes<F>(a.shape);
  const int shift = group_shift(a.shape);
  const int64_t size = super_bytes<F>(kSuperChunks, a.shape);
  for (int c = 0; c < count; ++c) {
    const int64_t column = n + c < a.n1 ? n + c : a.n1 - 1;
    const uint8_t* from =
        static_cast<const uint8_t*>(a.packed) + column * bytes + first / kSuperChunks * size;
    for (int64_t super = first; super < end; super += kSuperChunks, from += size) {
      const int chunks = static_cast<int>(end - super < kSuperChunks ? end - super : kSuperChunks);
      const uint8_t* p = from + F::header_bytes(chunks, shift);
      Scales scales;
      F::scales(from, chunks, shift, scales);
      // The columns that follow are memory's next business while the products run.
      for (int64_t line = 0; line < size; line += 64) __builtin_prefetch(from + count * bytes + line, 0, 2);
      for (int i = 0; i < chunks; ++i, p += F::Plane::kBytes) {
        Vec w[kVecsOfChunk], parts[kParts];
        chunk_weights<F>(p, scales, F::kGrouped ? i >> shift : i, w);
        parts_of(w, parts);
        store(c, super + i - first, parts);
      }
    }
  }
}

/// y of rows [m0, m1), columns [n0, n1) before the products.
void start_y(const LinearRun& a) {
  for (int64_t r = a.m0; r < a.m1; ++r) {
    float* y = a.y + r * a.ldy;
    for (int64_t n = a.n0; n < a.n1; ++n) y[n] = (a.accumulate ? y[n] : 0.0f) + (a.bias ? a.bias[n] : 0.0f);
  }
}
