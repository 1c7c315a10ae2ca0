// The instructions of AMX, as assembly: g++ 12's intrinsics do not tell what memory they read. A tile is up
// to 16 rows of up to 64 bytes. Include inside an anonymous namespace, after avx512/vec.h.

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

OCTAVO_INLINE void load_config(const TileConfig& config) { __asm__ volatile("ldtilecfg %0" ::"m"(config)); }
OCTAVO_INLINE void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }
template <int T>
OCTAVO_INLINE void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
}
template <int T>
OCTAVO_INLINE void load_tile(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T>
OCTAVO_INLINE void store_tile(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}

/// C += A B: sums of int32, exact.
struct DotInt8 {
  template <int C, int A, int B>
  OCTAVO_INLINE static void dot() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};
/// C += A B: float32, the even and the odd k of a step summed apart in rising order, then added to C. The
/// order does not depend on the tile's other rows.
struct DotBF16 {
  template <int C, int A, int B>
  OCTAVO_INLINE static void dot() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

constexpr int kTileRows = 16, kTileBytes = 64;
constexpr int kTileSize = kTileRows * kTileBytes;

/// f(integral constant) for 0 .. N - 1, unrolled: tile numbers are part of an instruction.
template <int N, int I = 0, class F>
OCTAVO_INLINE void each(const F& f) {
  if constexpr (I < N) {
    f.template operator()<I>();
    each<N, I + 1>(f);
  }
}
