// Matrix products on AMX tiles, for operands whose k values fill 32-bit units (four int8 or two bf16):
//   A  prepared rows, one unit after another            a tile: up to 16 rows x 64 bytes
//   B  panels of 16 columns, [units][16] units          a tile: 16 lines of 64 bytes, as they lie in memory
//   C  16 x 16 sums of 32 bits, spilled to a buffer on the stack
// A tile of B is exactly 16 units of a panel, so the layouts of int8.inl and panels.inl serve as they are;
// the last, shorter step of k has a tile configuration of its own.
//
// Static bounds (Sapphire Rapids): a TDP* takes 16 cycles with 16 rows and 52 until its sum can be used
// again, a tile load 8 (two lines a cycle). 2 x 2 tiles are four independent sums (64 cycles) for four loads
// (32 cycles): bound by TDP*. One tile of rows takes four panels, again for four sums. With one row a
// kilobyte of weights takes at most 16 cycles, 64 bytes a cycle, several times what memory gives a core: no
// second path for few rows, tiles just have fewer rows.
//
// Kernels keep no state, so run() loads the configuration (tens of cycles) and releases the tiles at its end,
// without which every later context switch would save 8 KB.
//
// Include inside an anonymous namespace, after avx512/vec.h and a file that defines kPanel.

#include "kernels/amx/tile_ops.inl"

constexpr int kBlockTiles =
    12;  ///< tiles of rows of one pass over the panels: 192 rows, as a piece of ops/linear
/// Steps of k between two spills of C: 16 KB of two panels stay in L1 while the rows pass, A comes from L2 at
/// 32 bytes a cycle. Spilling C costs 96 of the 512 cycles' load and store slots.
constexpr int64_t kBlockSteps = 8;

struct Operands {
  const char* a;  ///< the block's first row at its first unit
  int64_t lda;  ///< bytes between rows; not a multiple of 128: 16 rows a power of two apart share one L1 set
  const char* b;   ///< first panel at its first unit
  int64_t ldb;     ///< bytes between panels
  int64_t bytes;   ///< of a row of A, a multiple of 4
  int64_t rows;    ///< at most kBlockTiles * kTileRows
  int64_t tiles;   ///< of rows
  int64_t height;  ///< rows of each tile; the last begins at rows - height, so that all are alike
  char* sums;      ///< [tiles][panels of the group] tiles

  int64_t first_row(int64_t tile) const {
    return tile * height < rows - height ? tile * height : rows - height;
  }
};

/// C in tiles 0 to 3, A in 4 and 5, B in 6 and 7; `bytes` of k in a step.
TileConfig config_of(int64_t height, int64_t bytes) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    const bool is_a = t == 4 || t == 5, is_b = t > 5;
    config.row_bytes[t] = static_cast<uint16_t>(is_a ? bytes : kTileBytes);
    config.rows[t] = static_cast<uint8_t>(is_b ? bytes / 4 : height);
  }
  return config;
}

/// The sums of R tiles of rows and P panels over `steps` steps of k, from sums or (`first`) zero to sums.
template <class Dot, int R, int P>
void multiply(const Operands& o, int64_t tile, int64_t k0, int64_t steps, bool first) {
  char* sums = o.sums + tile * P * kTileSize;
  each<R * P>([&]<int T>() {
    if (first)
      zero_tile<T>();
    else
      load_tile<T>(sums + T * kTileSize, kTileBytes);
  });
  const char* a[R];
  for (int r = 0; r < R; ++r) a[r] = o.a + o.first_row(tile + r) * o.lda + k0 * kTileBytes;
  const char* b = o.b + k0 * kTileSize;
  for (int64_t s = 0; s < steps; ++s) {
    each<R>([&]<int r>() { load_tile<4 + r>(a[r], o.lda); });
    each<P>([&]<int p>() {
      load_tile<6 + p % 2>(b + p * o.ldb, kTileBytes);
      each<R>([&]<int r>() { Dot::template dot<r * P + p, 4 + r, 6 + p % 2>(); });
    });
    for (int r = 0; r < R; ++r) a[r] += kTileBytes;
    b += kTileSize;
  }
  each<R * P>([&]<int T>() { store_tile<T>(sums + T * kTileSize, kTileBytes); });
}

/// Steps [k0, k0 + steps) for all rows.
template <class Dot, int P>
void multiply_rows(const Operands& o, int64_t k0, int64_t steps) {
  int64_t tile = 0;
  if constexpr (P <= 2)
    for (; tile + 2 <= o.tiles; tile += 2) multiply<Dot, 2, P>(o, tile, k0, steps, k0 == 0);
  for (; tile < o.tiles; ++tile) multiply<Dot, 1, P>(o, tile, k0, steps, k0 == 0);
}

/// All of k for all rows and P panels. The sums of a tile are one after another: [panel][row][16].
template <class Dot, int P>
void multiply_panels(const Operands& o) {
  const int64_t steps = o.bytes / kTileBytes, rest = o.bytes % kTileBytes;
  load_config(config_of(o.height, kTileBytes));
  const int64_t block = o.tiles <= 2 ? steps : kBlockSteps;
  for (int64_t k0 = 0; k0 < steps; k0 += block)
    multiply_rows<Dot, P>(o, k0, steps - k0 < block ? steps - k0 : block);
  if (rest) {
    load_config(config_of(o.height, rest));
    multiply_rows<Dot, P>(o, steps, 1);
  }
}

/// Op: Dot, a_stride(k), a_offset, b_stride(k), b_offset, bytes(k) of the operands as in Operands, and
/// finish(run, panel, row, sums), which stores one row of a panel's sums. Any order of rows and panels gives
/// the same bits.
template <class Op, int P>
void run_panels(const LinearRun& run, Operands& o, int64_t m0, int64_t panel) {
  const int64_t end = (run.n1 + kPanel - 1) / kPanel;
  for (; panel + P <= end; panel += P) {
    o.b = static_cast<const char*>(run.packed) + panel * o.ldb + Op::kBOffset;
    multiply_panels<typename Op::Dot, P>(o);
    for (int64_t tile = 0; tile < o.tiles; ++tile) {
      const int64_t r1 = (tile + 1) * o.height < o.rows ? (tile + 1) * o.height : o.rows;
      for (int p = 0; p < P; ++p)
        for (int64_t r = tile * o.height; r < r1; ++r)
          Op::finish(run, panel + p, m0 + r,
                     o.sums + ((tile * P + p) * kTileRows + r - o.first_row(tile)) * kTileBytes);
    }
  }
  if constexpr (P > 1)
    if (panel < end) run_panels<Op, P / 2>(run, o, m0, panel);
}

template <class Op>
void run_tiles(const LinearRun& run) {
  alignas(64) char sums[kBlockTiles * 2 * kTileSize];
  for (int64_t m0 = run.m0; m0 < run.m1; m0 += kBlockTiles * kTileRows) {
    Operands o;
    o.lda = Op::a_stride(run.shape.k);
    o.a = static_cast<const char*>(run.prepared) + m0 * o.lda + Op::kAOffset;
    o.ldb = Op::b_stride(run.shape.k);
    o.bytes = Op::bytes(run.shape.k);
    o.rows = run.m1 - m0 < kBlockTiles * kTileRows ? run.m1 - m0 : kBlockTiles * kTileRows;
    o.tiles = (o.rows + kTileRows - 1) / kTileRows;
    o.height = (o.rows + o.tiles - 1) / o.tiles;
    o.sums = sums;
    if (o.tiles == 1)
      run_panels<Op, 4>(run, o, m0, run.n0 / kPanel);
    else
      run_panels<Op, 2>(run, o, m0, run.n0 / kPanel);
  }
  release_tiles();
}
