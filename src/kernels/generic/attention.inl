// Paged attention over Vec. Needs the ISA's vec.h: kLanes in {4, 8, 16}, kScoreRows.
//
// Layout of one KV head's block (kPack: 2 for bfloat16, whose pairs share 32 bits; else 1):
//   K  [token / 16][dim / kPack][token % 16][kPack]   dims padded to kPack with zeros
//   V  [token / kPack][dim][kPack]                    dims padded to 16 (never read into a result)
//   scales (int8 only)  float [2][token]: of K, then of V; value = scale * element
// So scores vectorise over 16 keys and values over dims, neither needs a horizontal sum, and both unpack a
// 32-bit lane with a shift or a mask. Pairs are also what VDPBF16PS takes: a format with kDot multiplies
// packs of K and V by packs of queries and weights that are rounded to bfloat16. (The largest logit error of
// SmolLM2 in bfloat16 is 0.58 then, 0.20 with float32 queries; transformers' own bfloat16 is off by 2.1.)
//
// A row's result depends on that row alone:
//   - each score is one fma chain over dims, each output one over keys, in rising order in any tile; with
//     kDot a chain of pairs, or of AMX's steps of 32, which start at multiples of 32;
//   - the running maximum moves at multiples of kPanel keys and the accumulator restarts at multiples of
//     kSplitKeys, counted from position 0; fold() joins splits in order, in attend() and merge() alike;
//   - a key that a row does not see has weight exactly +0, so it may be computed or skipped. Slots that no
//     row of the item sees may hold NaN: their scores are replaced, their values are not read.
#pragma once

#include "kernels/generic/exp.inl"

constexpr int kTile = 16;    // keys of a K tile
constexpr int kPanel = 128;  // keys between two moves of the running maximum
constexpr int kPanelTiles = kPanel / kTile;
constexpr int kTileVecs = kTile / kLanes;
static_assert(kSplitKeys % kPanel == 0);
constexpr float kNoScore = -__builtin_inff();
constexpr float kLowestMax = -3.40282347e38f;  // subtracted instead of -inf: 2^(-inf - it) is 0, not NaN

template <class T>
constexpr OCTAVO_INLINE T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr OCTAVO_INLINE T most(T a, T b) {
  return a > b ? a : b;
}
constexpr int64_t round_up(int64_t x, int64_t step) { return (x + step - 1) / step * step; }

/// What formats have in common whose products are all float32.
struct FloatProducts {
  static constexpr bool kDot = false;
  static OCTAVO_INLINE void add_products(Vec& sum, Vec a, Vec b) { fma_into(sum, a, b); }
};

struct KvF32 : FloatProducts {
  using Element = float;
  static constexpr int kPack = 1;
  static constexpr bool kScaled = false;         ///< a scale for each token's K and V
  static constexpr float kUnpackedScale = 1.0f;  ///< value = kUnpackedScale * unpack(), a power of two
  static OCTAVO_INLINE Vec unpack(const float* p, int) { return load(p); }
  static float encode(float x) { return x; }
  static float decode(float x) { return x; }
};

struct KvBF16 : FloatProducts {
  using Element = uint16_t;
  static constexpr int kPack = 2;
  static constexpr bool kScaled = false;
  static constexpr float kUnpackedScale = 1.0f;
  /// Member `member` of each of the kLanes packs at p.
  static OCTAVO_INLINE Vec unpack(const uint16_t* p, int member) {
    const uint32_t* pairs = reinterpret_cast<const uint32_t*>(p);
    return member == 0 ? bf16_low(pairs) : bf16_high(pairs);
  }
  static uint16_t encode(float x) {  // round to nearest even, NaN stays NaN
    const uint32_t b = __builtin_bit_cast(uint32_t, x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((b >> 16) | 0x40u);
    return static_cast<uint16_t>((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
  }
  static float decode(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
};

constexpr float kRoundToInteger =
    12582912.0f;  // 1.5 * 2^23: added, the low mantissa bits are the nearest integer

/// e4m3 without a scale: round to nearest even, beyond 448 saturated.
struct KvFP8 : FloatProducts {
  using Element = uint8_t;
  static constexpr int kPack = 1;
  static constexpr bool kScaled = false;
  static constexpr float kUnpackedScale = 256.0f;
  static OCTAVO_INLINE Vec unpack(const uint8_t* p, int) { return load_e4m3(p); }
  static uint8_t encode(float x) {
    const uint32_t b = __builtin_bit_cast(uint32_t, x), sign = b >> 24 & 0x80u, a = b & 0x7fffffffu;
    const float magnitude = __builtin_bit_cast(float, a);
    if (a > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);
    if (magnitude >= 448.0f) return static_cast<uint8_t>(sign | 0x7eu);
    if (magnitude < 0x1p-6f)  // subnormals: multiples of 2^-9
      return static_cast<uint8_t>(
          sign | (__builtin_bit_cast(uint32_t, magnitude * 512.0f + kRoundToInteger) & 0xfu));
    return static_cast<uint8_t>(sign | (((a + 0x7ffffu + (a >> 20 & 1u)) >> 20) - (120u << 3)));
  }
  static float decode(uint8_t x) {
    const float magnitude = __builtin_bit_cast(float, (x & 0x7fu) << 20) * 0x1p120f;
    return x & 0x80u ? -magnitude : magnitude;
  }
};

/// Symmetric int8 with a float32 scale for each token of each head.
struct KvInt8 : FloatProducts {
  using Element = int8_t;
  static constexpr int kPack = 1;
  static constexpr bool kScaled = true;
  static constexpr float kUnpackedScale = 1.0f;
  static OCTAVO_INLINE Vec unpack(const int8_t* p, int) { return load_s8(p); }
  /// x is within [-127, 127] (or NaN, whose scale is NaN too: the code does not matter).
  static int8_t encode(float x) {
    return static_cast<int8_t>(__builtin_bit_cast(uint32_t, x + kRoundToInteger));
  }
  static float decode(int8_t x) { return x; }
  static float scale_of(const float* x, int n) {
    float highest = 0;
    for (int i = 0; i < n; ++i) {
      const float a = __builtin_fabsf(x[i]);
      highest = a > highest || a != a ? a : highest;
      if (a != a) break;
    }
    return highest / 127.0f;
  }
};

/// Steps over a pack.
template <class Kv>
constexpr int kSteps = Kv::kDot ? 1 : Kv::kPack;
/// What a step multiplies.
template <class Kv>
OCTAVO_INLINE Vec operand(const typename Kv::Element* p, int member) {
  if constexpr (Kv::kDot)
    return Kv::packs(p);
  else
    return Kv::unpack(p, member);
}

/// Where things are in a head's block.
template <class Kv>
struct BlockLayout {
  int k_dims, v_dims;  ///< padded
  int64_t v_offset;    ///< elements before V
  int64_t bytes;       ///< before the scales

  BlockLayout(int block_size, int head_dim)
      : k_dims(static_cast<int>(round_up(head_dim, Kv::kPack))),
        v_dims(static_cast<int>(round_up(head_dim, 16))),
        v_offset(int64_t{block_size} * k_dims),
        bytes((v_offset + int64_t{block_size} * v_dims) *
              static_cast<int64_t>(sizeof(typename Kv::Element))) {}
  int64_t k_index(int token, int dim) const {
    constexpr int P = Kv::kPack;
    return ((int64_t{token} / kTile * (k_dims / P) + dim / P) * kTile + token % kTile) * P + dim % P;
  }
  int64_t v_index(int token, int dim) const {
    constexpr int P = Kv::kPack;
    return v_offset + (int64_t{token} / P * v_dims + dim) * P + token % P;
  }
};

template <class Kv>
size_t head_bytes(int block_size, int head_dim) {
  const int64_t scales = Kv::kScaled ? 2 * int64_t{block_size} * static_cast<int64_t>(sizeof(float)) : 0;
  return static_cast<size_t>(round_up(BlockLayout<Kv>(block_size, head_dim).bytes + scales, 64));
}

template <class Kv>
void write_token(const float* k, const float* v, std::byte* head_block, int offset, int block_size,
                 int head_dim) {
  const BlockLayout<Kv> layout(block_size, head_dim);
  auto* block = reinterpret_cast<typename Kv::Element*>(head_block);
  float k_factor = 1.0f, v_factor = 1.0f;
  if constexpr (Kv::kScaled) {
    float* scales = reinterpret_cast<float*>(head_block + layout.bytes) + offset;
    scales[0] = Kv::scale_of(k, head_dim);
    scales[block_size] = Kv::scale_of(v, head_dim);
    k_factor = scales[0] > 0 ? 1.0f / scales[0] : 0.0f;
    v_factor = scales[block_size] > 0 ? 1.0f / scales[block_size] : 0.0f;
  }
  for (int d = 0; d < head_dim; ++d) {
    block[layout.k_index(offset, d)] = Kv::encode(k[d] * k_factor);
    block[layout.v_index(offset, d)] = Kv::encode(v[d] * v_factor);
  }
  for (int d = head_dim; d < layout.k_dims; ++d) block[layout.k_index(offset, d)] = Kv::encode(0.0f);
}

template <class Kv>
void read_token(const std::byte* head_block, int offset, int block_size, int head_dim, float* k, float* v) {
  const BlockLayout<Kv> layout(block_size, head_dim);
  const auto* block = reinterpret_cast<const typename Kv::Element*>(head_block);
  float k_scale = 1.0f, v_scale = 1.0f;
  if constexpr (Kv::kScaled) {
    const float* scales = reinterpret_cast<const float*>(head_block + layout.bytes) + offset;
    k_scale = scales[0];
    v_scale = scales[block_size];
  }
  for (int d = 0; d < head_dim; ++d) {
    k[d] = k_scale * Kv::decode(block[layout.k_index(offset, d)]);
    v[d] = v_scale * Kv::decode(block[layout.v_index(offset, d)]);
  }
}

/// The keys of one panel that the item sees: tiles [tile0, tile1) of the panel, keys [first, last) of it.
/// While a tile is computed, its place in the next panel is prefetched (or in this one, where there is none):
/// blocks are pages apart, and hardware prefetch ends at each. Into L2, as a panel and the next do not fit
/// into L1 together. Decode of 4 rows a KV head of 64 BF16 dims from memory, one core: 7 GB/s without, 14
/// with prefetch into L1, 17 into L2 (20 from cache: FMA-bound).
template <class Kv>
struct Panel {
  const typename Kv::Element *k[kPanelTiles], *v[kPanelTiles], *next_k[kPanelTiles], *next_v[kPanelTiles];
  const float *k_scales[kPanelTiles], *v_scales[kPanelTiles];  ///< of a scaled format, [kTile]
  int tile0, tile1, first, last;
};

// ---- register tiles ----
// Functions of their own: inlined into an item's loops they take twice the time, their sums spilled.

/// Scores of R rows against T tiles of keys. q: [k_dims][R], packs of dims with kDot; scores: [R][kPanel], at
/// the first tile.
template <class Kv, int R, int T>
[[gnu::noinline]] void score_tile(const float* q, const typename Kv::Element* const* k,
                                  const typename Kv::Element* const* next_k, int packs, float* scores) {
  constexpr int V = T * kTileVecs, P = Kv::kPack, S = kSteps<Kv>;
  constexpr int kChunk =
      V < 2 ? 1 : 2;  // Vecs of keys at a time: more (and what they unpack from) would spill
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) sum[r][j] = zero();
  int64_t at = 0;
  for (int pack = 0; pack < packs; ++pack, at += kTile * P) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) prefetch_l2(next_k[t] + at);  // a pack of a tile's keys is one line
#pragma GCC unroll 8
    for (int chunk = 0; chunk < V; chunk += kChunk)
#pragma GCC unroll 4
      for (int member = 0; member < S; ++member) {
        Vec keys[kChunk];
#pragma GCC unroll 4
        for (int j = 0; j < kChunk; ++j)
          keys[j] =
              operand<Kv>(k[(chunk + j) / kTileVecs] + at + (chunk + j) % kTileVecs * kLanes * P, member);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const Vec x = broadcast(q + member * R + r);
#pragma GCC unroll 4
          for (int j = 0; j < kChunk; ++j) Kv::add_products(sum[r][chunk + j], x, keys[j]);
        }
      }
    q += S * R;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < V; ++j) store(scores + r * kPanel + j * kLanes, sum[r][j]);
}

template <class Kv, int R, int T>
void score_rows(const float* q, const Panel<Kv>& panel, int packs, float* scores) {
  int tile = panel.tile0;
  for (; tile + T <= panel.tile1; tile += T)
    score_tile<Kv, R, T>(q, panel.k + tile, panel.next_k + tile, packs, scores + tile * kTile);
  if constexpr (T > 1)
    for (; tile < panel.tile1; ++tile)
      score_tile<Kv, R, 1>(q, panel.k + tile, panel.next_k + tile, packs, scores + tile * kTile);
}

/// acc = acc * alpha + weights * V for R rows and C Vecs of dims. weights: [R][kPanel], with kDot the first
/// half of each row holds packs; acc: [R][v_dims], at the first dim.
template <class Kv, int R, int C>
[[gnu::noinline]] void value_tile(const float* weights, const float* alpha, const Panel<Kv>& panel,
                                  int v_dims, int dim, float* acc) {
  constexpr int P = Kv::kPack, S = kSteps<Kv>;
  Vec sum[R][C];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) sum[r][c] = load(acc + int64_t{r} * v_dims + c * kLanes) * set1(alpha[r]);
  auto add_key = [&](const typename Kv::Element* v, const float* w, int member, auto filter)
      __attribute__((always_inline)) {
    constexpr int kChunk = C < 2 ? 1 : 2;  // Vecs of values at a time: more would spill
#pragma GCC unroll 8
    for (int c = 0; c < C; c += kChunk) {
      Vec value[kChunk];
#pragma GCC unroll 2
      for (int j = 0; j < kChunk; ++j) value[j] = filter(operand<Kv>(v + (c + j) * kLanes * P, member));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec x = broadcast(w + r * kPanel);
#pragma GCC unroll 2
        for (int j = 0; j < kChunk; ++j) Kv::add_products(sum[r][c + j], x, value[j]);
      }
    }
  };
  const auto all = [](Vec x) __attribute__((always_inline)) { return x; };
  const int64_t stride = int64_t{v_dims} * P;
  for (int tile = panel.tile0; tile < panel.tile1; ++tile) {
    const typename Kv::Element* v = panel.v[tile] + int64_t{dim} * P;
    const float* w = weights + tile * (kTile / P * S);
    const int begin = most(0, panel.first - tile * kTile), end = least(kTile, panel.last - tile * kTile);
    if (begin == 0 && end == kTile) {
      const typename Kv::Element* next = panel.next_v[tile] + int64_t{dim} * P;
      for (int t = 0; t < kTile; t += P, v += stride, next += stride, w += S) {
#pragma GCC unroll 4
        for (int line = 0; line < C * kLanes * P; line += 64 / static_cast<int>(sizeof *v))
          prefetch_l2(next + line);
#pragma GCC unroll 4
        for (int member = 0; member < S; ++member) add_key(v, w + member, member, all);
      }
    } else if constexpr (Kv::kDot) {  // what lies beside the seen keys in their packs may be NaN
      for (int t = begin / P * P; t < end; t += P)
        add_key(
            v + t / P * stride, w + t / P, 0, [&](Vec x) __attribute__((always_inline)) {
              return Kv::members_between(x, begin - t, end - t);
            });
    } else {
      for (int t = begin; t < end; ++t)
#pragma GCC unroll 4
        for (int member = 0; member < P; ++member)
          if (t % P == member) add_key(v + t / P * stride, w + t, member, all);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < C; ++c) store(acc + int64_t{r} * v_dims + c * kLanes, sum[r][c]);
}

template <class Kv, int R, int C>
void value_rows(const float* weights, const float* alpha, const Panel<Kv>& panel, int v_dims, float* acc,
                int dim = 0) {
  for (; dim + C * kLanes <= v_dims; dim += C * kLanes)
    value_tile<Kv, R, C>(weights, alpha, panel, v_dims, dim, acc + dim);
  if constexpr (C > 1)
    if (dim < v_dims) value_rows<Kv, R, C / 2>(weights, alpha, panel, v_dims, acc, dim);
}

/// Vecs of keys or dims beside R rows: at least eight fma chains in flight where the registers allow.
constexpr int tile_columns(int rows) {
  int vecs = least(2, kScoreRows);
  while (vecs * rows < 8 && vecs * 2 * rows < 2 * kScoreRows) vecs *= 2;
  return vecs;
}

template <class Kv, int R = kScoreRows>
void score_group(int rows, const float* q, const Panel<Kv>& panel, int packs, float* scores) {
  if constexpr (R > 1)
    if (rows < R) return score_group<Kv, R - 1>(rows, q, panel, packs, scores);
  score_rows<Kv, R, most(1, tile_columns(R) / kTileVecs)>(q, panel, packs, scores);
}
template <class Kv, int R = kScoreRows>
void value_group(int rows, const float* weights, const float* alpha, const Panel<Kv>& panel, int v_dims,
                 float* acc) {
  if constexpr (R > 1)
    if (rows < R) return value_group<Kv, R - 1>(rows, weights, alpha, panel, v_dims, acc);
  value_rows<Kv, R, tile_columns(R)>(weights, alpha, panel, v_dims, acc);
}

/// The products of a group of at most kRows rows, by Vecs. (amx/attention.cc has the same for its tiles.)
template <class Kv>
struct VectorProducts {
  static constexpr int kRows = kScoreRows;
  static constexpr int kSpareRows = 0;  ///< behind the item's last that may be read and written
  static int64_t floats(const BlockLayout<Kv>&) { return 0; }  ///< of scratch

  const BlockLayout<Kv>& layout;
  VectorProducts(const BlockLayout<Kv>& l, int /*height: rows of all groups but the last*/,
                 float* /*scratch*/)
      : layout(l) {}
  /// Where element d of row r of a group of `count` is in its queries.
  int64_t query_index(int d, int r, int count) const { return int64_t{d} * count + r; }
  /// `first`: the panel's first group.
  void scores(int count, const float* q, const Panel<Kv>& panel, bool /*first*/, float* to) const {
    score_group<Kv>(count, q, panel, layout.k_dims / Kv::kPack, to);
  }
  /// Before the values of a panel, whose weights are those of `rows` rows.
  void begin_values(const Panel<Kv>&, float* /*weights*/, int /*rows*/) {}
  void values(int count, const float* weights, const float* alpha, const Panel<Kv>& panel, bool /*first*/,
              float* acc) const {
    value_group<Kv>(count, weights, alpha, panel, layout.v_dims, acc);
  }
};

// ---- softmax ----

// Scores are in units of log 2 (the factor log2 e is in the scaled queries, or in the cap), so that weights
// are exp2().
constexpr float kLog2E = 1.44269504f;

/// State of one row within a split, or of the splits folded so far.
struct RowState {
  float max, sum;
};

/// Factors that bring two accumulators to their common maximum.
struct FoldFactors {
  float total, part;
};
OCTAVO_INLINE FoldFactors fold_state(RowState& total, const RowState& part) {
  const float highest = most(total.max, part.max);
  const FoldFactors f = {first(exp2(set1(total.max - highest))), first(exp2(set1(part.max - highest)))};
  total = {highest, total.sum * f.total + part.sum * f.part};
  return f;
}

/// total += part for one row of n values. An empty part changes nothing; an empty total becomes the part, bit
/// for bit.
void fold(float* total, RowState& total_state, const float* part, const RowState& part_state, int n) {
  if (part_state.max == kNoScore) return;
  const bool copy = total_state.max == kNoScore;
  FoldFactors f = {};
  if (copy)
    total_state = part_state;
  else
    f = fold_state(total_state, part_state);
  const Vec a = set1(f.total), b = set1(f.part);
  int d = 0;
  for (; d + kLanes <= n; d += kLanes)
    store(total + d, copy ? load(part + d) : fma(load(total + d), a, load(part + d) * b));
  if (const int rest = n - d; rest > 0) {
    const Vec p = load_first(part + d, rest);
    store_first(total + d, copy ? p : fma(load_first(total + d, rest), a, p * b), rest);
  }
}

/// out = acc / sum with the sink's share of the sum added.
void finish_row(const float* acc, RowState state, const float* sink, int n, float* out) {
  float numerator = 1.0f, sum = state.sum;
  if (sink) {
    RowState with_sink = state;
    numerator = fold_state(with_sink, {*sink * kLog2E, 1.0f}).total;
    sum = with_sink.sum;
  }
  const Vec factor = set1(numerator / sum);
  int d = 0;
  for (; d + kLanes <= n; d += kLanes) store(out + d, load(acc + d) * factor);
  if (const int rest = n - d; rest > 0) store_first(out + d, load_first(acc + d, rest) * factor, rest);
}

/// Keys [lo, hi) of the panel that a row sees.
struct Seen {
  int lo, hi;
};

/// Multiplies each tile's scores by its keys' scales.
OCTAVO_INLINE void scale_tiles(float* scores, const float* const* scales, int begin, int end) {
  for (int i = begin; i < end; i += kTile)
    for (int j = 0; j < kTile; j += kLanes)
      store(scores + i + j, load(scores + i + j) * load(scales[i / kTile] + j));
}

/// Applies the cap, hides the keys that the row does not see and returns the maximum of [begin, end),
/// multiples of kTile.
OCTAVO_INLINE float prepare_scores(float* scores, int begin, int end, Seen seen, float softcap) {
  if (softcap != 0) {
    const Vec cap = set1(softcap * kLog2E), inverse = set1(1.0f / softcap);
    for (int i = begin; i < end; i += kLanes) store(scores + i, cap * tanh(load(scores + i) * inverse));
  }
  if (seen.lo > begin || seen.hi < end)
    for (int i = begin; i < end; i += kLanes)
      if (i < seen.lo || i + kLanes > seen.hi)
        store(scores + i, select(lanes_between(seen.lo - i, seen.hi - i), load(scores + i), set1(kNoScore)));
  Vec highest[kTileVecs];
  for (int j = 0; j < kTileVecs; ++j) highest[j] = load(scores + begin + j * kLanes);
  for (int i = begin + kTile; i < end; i += kTile)
    for (int j = 0; j < kTileVecs; ++j) highest[j] = max(highest[j], load(scores + i + j * kLanes));
  for (int j = 1; j < kTileVecs; ++j) highest[0] = max(highest[0], highest[j]);
  return reduce_max(highest[0]);
}

/// Scores to weights 2^(score - base) in place; returns their sum, lane by lane of the keys' places in the
/// panel.
OCTAVO_INLINE float scores_to_weights(float* scores, int begin, int end, float base) {
  const Vec m = set1(base);
  Vec sum[kTileVecs];
  for (int j = 0; j < kTileVecs; ++j) sum[j] = zero();
  for (int i = begin; i < end; i += kTile)
#pragma GCC unroll 4
    for (int j = 0; j < kTileVecs; ++j) {
      const Vec w = exp2(load(scores + i + j * kLanes) - m);
      store(scores + i + j * kLanes, w);
      sum[j] = sum[j] + w;
    }
  for (int j = 1; j < kTileVecs; ++j) sum[0] = sum[0] + sum[j];
  return reduce_add(sum[0]);
}

// ---- one work item ----

/// The scratch of an item. Rows go in groups of equal height, but for the last.
template <class Kv, class Products>
struct Item {
  const Attend& a;
  const BlockLayout<Kv> layout;
  const int rows, height;
  float *q, *scores, *acc, *total, *alpha;
  RowState *state, *total_state;
  Products products;

  static int64_t floats(int rows, const BlockLayout<Kv>& layout) {
    const int64_t held = rows + Products::kSpareRows;
    return round_up(
        held * (layout.k_dims + kPanel + 2 * layout.v_dims + 5) + 8 * 16 + Products::floats(layout), 16);
  }
  /// Rows of a group: as few groups as can be, as equal as can be.
  static int height_of(int rows) {
    const int groups = (rows + Products::kRows - 1) / Products::kRows;
    return (rows + groups - 1) / groups;
  }

  explicit Item(const Attend& args)
      : a(args),
        layout(args.kv.block_size, args.kv.head_dim),
        rows(args.tokens * args.group),
        height(height_of(rows)),
        products(layout, height, static_cast<float*>(a.scratch)) {
    float* at = static_cast<float*>(a.scratch) + round_up(Products::floats(layout), 16);
    auto take = [&](int64_t count) {
      float* p = at;
      at += round_up(count, 16);
      return p;
    };
    const int64_t held = rows + Products::kSpareRows;
    q = take(held * layout.k_dims);
    scores = take(held * kPanel);
    acc = take(held * layout.v_dims);
    total = take(held * layout.v_dims);
    alpha = take(rows);
    state = reinterpret_cast<RowState*>(take(2 * int64_t{rows}));
    total_state = reinterpret_cast<RowState*>(take(2 * int64_t{rows}));
  }

  /// f(first row, rows) for each group.
  template <class F>
  OCTAVO_INLINE void for_groups(F f) const {
    for (int row = 0; row < rows; row += height) f(row, least(height, rows - row));
  }

  /// Through the first row of acc, which is free: scaled there, then dealt out.
  void pack_queries() const {
    const int head_dim = a.kv.head_dim;
    const float scale = a.scale * Kv::kUnpackedScale * (a.softcap != 0 ? 1.0f : kLog2E);
    constexpr int kStepDims = Kv::kPack / kSteps<Kv>;  // of an element of q
    for_groups([&](int row0, int count) {
      float* to = q + int64_t{row0} * layout.k_dims;
      for (int r = 0; r < count; ++r) {
        const float* from = a.q + (row0 + r) / a.group * a.ldq + int64_t{(row0 + r) % a.group} * head_dim;
        for (int d = 0; d < layout.v_dims; d += kLanes)
          store(acc + d, load_first(from + d, least(kLanes, head_dim - d)) * set1(scale));
        if constexpr (Kv::kDot) Kv::pack(acc, 0, layout.v_dims);
        for (int d = 0; d < layout.k_dims / kStepDims; ++d) to[products.query_index(d, r, count)] = acc[d];
      }
    });
  }

  int64_t first_key(int token) const {
    return a.window ? most(int64_t{0}, a.position + token + 1 - a.window) : 0;
  }
  int64_t end_key(int token) const { return a.position + token + 1; }

  /// False if no row of the item sees a key in [begin, end). Blocks that the window has passed are not looked
  /// up.
  bool find_panel(int64_t begin, int64_t end, Panel<Kv>& panel) const {
    const int64_t first = most(begin, first_key(0)), last = least(end, end_key(a.tokens - 1));
    if (first >= last) return false;
    panel.first = static_cast<int>(first - begin);
    panel.last = static_cast<int>(last - begin);
    panel.tile0 = panel.first / kTile;
    panel.tile1 = (panel.last + kTile - 1) / kTile;
    int64_t at = begin + panel.tile0 * kTile;
    for (int tile = panel.tile0; tile < panel.tile1; ++tile, at += kTile) {
      find_tile(at, panel.k[tile], panel.v[tile]);
      if constexpr (Kv::kScaled) find_scales(at, panel.k_scales[tile], panel.v_scales[tile]);
      const bool more = at + kPanel < least(a.key1, end_key(a.tokens - 1));
      find_tile(more ? at + kPanel : at, panel.next_k[tile], panel.next_v[tile]);
    }
    return true;
  }

  const std::byte* find_block(int64_t key, int& offset) const {
    const auto position = static_cast<uint32_t>(key), block_size = static_cast<uint32_t>(a.kv.block_size);
    offset = static_cast<int>(position % block_size);
    return a.kv.base +
           (int64_t{a.block_table[position / block_size]} * a.kv.kv_heads + a.kv_head) * a.kv.head_bytes;
  }

  void find_tile(int64_t key, const typename Kv::Element*& k, const typename Kv::Element*& v) const {
    int offset;
    const auto* block = reinterpret_cast<const typename Kv::Element*>(find_block(key, offset));
    k = block + int64_t{offset} * layout.k_dims;
    v = block + layout.v_offset + int64_t{offset} * layout.v_dims;
  }

  void find_scales(int64_t key, const float*& k, const float*& v) const {
    int offset;
    k = reinterpret_cast<const float*>(find_block(key, offset) + layout.bytes) + offset;
    v = k + a.kv.block_size;
  }

  /// The first panel has no predecessor to prefetch it: all of its lines at once.
  void prefetch_first() const {
    Panel<Kv> panel;
    const int64_t begin = most(a.key0, first_key(0) / kPanel * kPanel);
    if (!find_panel(begin, least(a.key1, begin + kPanel), panel)) return;
    constexpr int kLine = 64 / static_cast<int>(sizeof(typename Kv::Element));
    for (int tile = panel.tile0; tile < panel.tile1; ++tile)
      for (int i = 0; i < kTile * layout.k_dims; i += kLine) prefetch_l2(panel.k[tile] + i);
    for (int tile = panel.tile0; tile < panel.tile1; ++tile)
      for (int i = 0; i < kTile * layout.v_dims; i += kLine) prefetch_l2(panel.v[tile] + i);
  }

  Seen seen_by(int row, int64_t begin, const Panel<Kv>& panel) const {
    const int token = row / a.group;
    return {static_cast<int>(least(int64_t{kPanel}, most(int64_t{panel.first}, first_key(token) - begin))),
            static_cast<int>(most(int64_t{0}, least(int64_t{panel.last}, end_key(token) - begin)))};
  }

  /// The panel's scores become weights; alpha is what brings the accumulators to the new maxima. Maxima
  /// first, then all factors in Vecs, then the weights: a row at a time, each would wait for the latency of
  /// the one before.
  void soften(const Panel<Kv>& panel, int64_t at) const {
    const int begin = panel.tile0 * kTile, end = panel.tile1 * kTile;
    for (int r = 0; r < rows; ++r) {
      if constexpr (Kv::kScaled) scale_tiles(scores + int64_t{r} * kPanel, panel.k_scales, begin, end);
      const float highest =
          prepare_scores(scores + int64_t{r} * kPanel, begin, end, seen_by(r, at, panel), a.softcap);
      const float old = state[r].max;
      state[r].max = most(old, highest);
      alpha[r] = old - most(state[r].max, kLowestMax);
    }
    for (int r = 0; r < rows; r += kLanes)
      store(alpha + r, exp2(load(alpha + r)));  // the array is padded to 16
    for (int r = 0; r < rows; ++r) {
      const float base = most(state[r].max, kLowestMax);
      state[r].sum =
          state[r].sum * alpha[r] + scores_to_weights(scores + int64_t{r} * kPanel, begin, end, base);
      // What lies in the scales of slots that no row sees times 0 is not read by value_tile().
      if constexpr (Kv::kScaled) scale_tiles(scores + int64_t{r} * kPanel, panel.v_scales, begin, end);
      if constexpr (Kv::kDot) Kv::pack(scores + int64_t{r} * kPanel, begin, end);
    }
  }

  /// acc and state over keys [begin, end) of one split.
  void run_split(int64_t begin, int64_t end) {
    for (int r = 0; r < rows; ++r) state[r] = {kNoScore, 0.0f};
    for (int64_t i = 0; i < int64_t{rows} * layout.v_dims; i += kLanes) store(acc + i, zero());
    for (int64_t at = begin; at < end; at += kPanel) {
      Panel<Kv> panel;
      if (!find_panel(at, least(end, at + kPanel), panel)) continue;
      for_groups([&](int row, int count) {
        products.scores(count, q + int64_t{row} * layout.k_dims, panel, row == 0,
                        scores + int64_t{row} * kPanel);
      });
      soften(panel, at);
      products.begin_values(panel, scores, rows);
      for_groups([&](int row, int count) {
        products.values(count, scores + int64_t{row} * kPanel, alpha + row, panel, row == 0,
                        acc + int64_t{row} * layout.v_dims);
      });
    }
    if constexpr (Kv::kUnpackedScale != 1.0f)
      for (int64_t i = 0; i < int64_t{rows} * layout.v_dims; i += kLanes)
        store(acc + i, load(acc + i) * set1(Kv::kUnpackedScale));
  }

  void run() {
    prefetch_first();
    pack_queries();
    bool empty = true;
    for (int64_t begin = a.key0; begin < a.key1; begin += kSplitKeys) {
      run_split(begin, least(a.key1, begin + kSplitKeys));
      if (empty) {
        float* values = acc;
        acc = total;
        total = values;
        RowState* states = state;
        state = total_state;
        total_state = states;
        empty = false;
        continue;
      }
      for (int r = 0; r < rows; ++r) {
        const int64_t at = int64_t{r} * layout.v_dims;
        fold(total + at, total_state[r], acc + at, state[r], layout.v_dims);
      }
    }
    for (int r = 0; r < rows; ++r) put_row(r);
  }

  void put_row(int r) const {
    const int head_dim = a.kv.head_dim;
    const float* values = total + int64_t{r} * layout.v_dims;
    if (a.partial) {
      float* to = a.partial + int64_t{r} * (head_dim + 2);
      for (int d = 0; d < head_dim; ++d) to[d] = values[d];
      to[head_dim] = total_state[r].max;
      to[head_dim + 1] = total_state[r].sum;
      return;
    }
    const int head = r % a.group;
    finish_row(values, total_state[r], a.sinks ? a.sinks + head : nullptr, head_dim,
               a.out + r / a.group * a.ldo + int64_t{head} * head_dim);
  }
};

template <class Kv, class Products>
size_t scratch_bytes(int rows, int head_dim, int) {
  return static_cast<size_t>(Item<Kv, Products>::floats(rows, BlockLayout<Kv>(kTile, head_dim))) *
         sizeof(float);
}

template <class Kv, class Products>
void attend(const Attend& args) {
  Item<Kv, Products> item(args);
  item.run();
}

/// The fold of attend(), with `out` as the accumulator.
void merge_rows(const float* partials, int64_t stride, int parts, int rows, int head_dim, const float* sinks,
                int group, float* out, int64_t ldo) {
  for (int r = 0; r < rows; ++r) {
    const int head = r % group;
    float* to = out + r / group * ldo + int64_t{head} * head_dim;
    RowState total = {kNoScore, 0.0f};
    for (int d = 0; d < head_dim; ++d) to[d] = 0;
    for (int i = 0; i < parts; ++i) {
      const float* part = partials + i * stride + int64_t{r} * (head_dim + 2);
      fold(to, total, part, {part[head_dim], part[head_dim + 1]}, head_dim);
    }
    finish_row(to, total, sinks ? sinks + head : nullptr, head_dim, to);
  }
}

template <class Kv, class Products = VectorProducts<Kv>>
constexpr AttentionKernel attention_kernel(const char* name) {
  return {.name = name,
          .block_step = kTile,
          .tile_rows = 8 * Products::kRows,
          .rounds = Kv::kDot,
          .head_bytes = head_bytes<Kv>,
          .scratch_bytes = scratch_bytes<Kv, Products>,
          .write = write_token<Kv>,
          .read = read_token<Kv>,
          .attend = attend<Kv, Products>,
          .merge = merge_rows};
}
