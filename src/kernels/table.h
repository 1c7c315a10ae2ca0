// The kernel catalogue. One KernelTable per ISA folder, overlaid in rising order by select.cc; null entries
// leave what is below. Kernels are pure functions on raw pointers: no threads, no allocation, no exceptions,
// no containers. All activations are float32, row-major; "ld" is a row stride in elements. Every result of a
// row is computed in an order that depends on that row alone (never on m, on the split or on its neighbours
// in the batch): greedy output is then the same alone and among others, in one prefill or in chunks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace octavo::kernels {

/// Execution formats of a linear layer's weights. kQ8A8, kQ4A8: integers of 8 or 4 bits with a
/// float16 scale for 32 inputs, activations int8 with a scale for the same 32 (GGUF's Q8_0 and Q4_0 in int8
/// arithmetic). From kQ4_1A8 on they are other block formats of GGUF in int8 arithmetic
/// (generic/int8_blocks.inl), k a multiple of the file's block (32 or 256), from kW4A16 on weight-only block
/// formats (generic/float_blocks.inl): k is a multiple of 32, activations stay float32 (but see
/// KernelTable::bf16_blocks).
enum class WeightFormat : uint8_t {
  kF32,
  kBF16,
  kW8A8,
  kW4A8,
  kQ8A8,
  kQ4A8,
  kQ4_1A8,
  kQ5_0A8,
  kQ5_1A8,
  kQ2_KA8,
  kQ3_KA8,
  kQ4_KA8,
  kQ5_KA8,
  kQ6_KA8,
  kMXFP4A8,
  kW4A16,
  kW8A16,
  kFP8,
  kMXFP4,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kCount
};
/// Storage formats of the KV cache. FP8 is e4m3 without a scale, saturating at 448; Int8 has a scale for each
/// token of each head.
enum class KvFormat : uint8_t { kF32, kBF16, kFP8, kInt8, kCount };

inline constexpr int kNumWeightFormats = static_cast<int>(WeightFormat::kCount);
inline constexpr int kFirstInt8Block = static_cast<int>(WeightFormat::kQ4_1A8);
inline constexpr int kFirstBlockFormat = static_cast<int>(WeightFormat::kW4A16);
inline constexpr int kNumInt8Blocks = kFirstBlockFormat - kFirstInt8Block;
inline constexpr int kNumBlockFormats = kNumWeightFormats - kFirstBlockFormat;
inline constexpr int kNumKvFormats = static_cast<int>(KvFormat::kCount);

// ---- linear: y[m, n] = x[m, k] * W[n, k]^T (+ bias)
// --------------------------------------------------------------------

/// What one linear layer is, for all functions of its kernel.
struct LinearShape {
  int64_t n, k;
  int64_t group;       ///< inputs that share a scale; k for one scale per output (and for float formats)
  float x_scale = 0;   ///< of activations quantised with one fixed scale; 0: each row of x has its own
  int32_t x_zero = 0;  ///< zero point of those, in -128..127
  bool x_asymmetric = false;  ///< each row of x has a zero point of its own too (x_scale 0; W8A8 only)
  // What 4-bit kernels hold or pass beside the integers, which are few enough for it to count (W4A8, W4A16):
  bool half_scales = false;  ///< every scale of the weights is exactly a float16
  bool has_zeros = false;    ///< the weights have zero points
};

/// Rows [n0, n1) of a weight as pack() reads them. Float formats read `values`; integer formats read q,
/// scales and zeros; FP8 reads its bytes in q; formats of GGUF read `blocks` (MXFP4 also codes 0..15 in q and
/// powers of two in scales).
struct WeightRows {
  const float* values = nullptr;      ///< [n1-n0, k]
  const int8_t* q = nullptr;          ///< [n1-n0, k]
  const float* scales = nullptr;      ///< [n1-n0, k/group]
  const int8_t* zeros = nullptr;      ///< [n1-n0, k/group] or null when symmetric
  const std::byte* blocks = nullptr;  ///< the rows' blocks as the file has them
  int64_t block_row_bytes = 0;        ///< of one row of `blocks`
};

struct LinearRun {
  const void* packed;    ///< from pack(), all of [n, k]
  const void* prepared;  ///< from prepare(), or null where prepared_bytes is 0
  const float* x;        ///< [m, k], for kernels that need no preparation
  int64_t ldx;
  float* y;  ///< [m, n]
  int64_t ldy;
  const float* bias;  ///< [n] or null
  LinearShape shape;
  int64_t m;
  int64_t n0, n1;   ///< the columns to compute; n0 is a multiple of n_step, n1 too or equal to n
  int64_t m0, m1;   ///< the rows to compute; m0 is a multiple of m_step
  bool accumulate;  ///< y += instead of y = (residual add); the addend is y before the product
};

struct LinearKernel {
  const char* name;  ///< "bf16 avx2 6x16", printed by `octavo info`
  int m_step, n_step;
  size_t (*packed_bytes)(const LinearShape& shape);
  /// Packs output rows [n0, n1) into their place; n0 is a multiple of n_step. Callable from several threads
  /// for disjoint rows.
  void (*pack)(const WeightRows& rows, int64_t n0, int64_t n1, const LinearShape& shape, void* packed);
  size_t (*prepared_bytes)(int64_t m, const LinearShape& shape);  ///< 0: run() reads x itself
  /// Rows [m0, m1) of x into the kernel's own form (quantised, interleaved); m0 is a multiple of m_step.
  void (*prepare)(const float* x, int64_t ldx, int64_t m0, int64_t m1, int64_t m, const LinearShape& shape,
                  void* prepared);
  void (*run)(const LinearRun& args);
};

// ---- paged attention
// ----------------------------------------------------------------------------------------------------

/// The K and V of one layer: block b of KV head h starts at base + (b * kv_heads + h) * head_bytes.
struct KvView {
  std::byte* base;
  int64_t head_bytes;  ///< AttentionKernel::head_bytes(block_size, head_dim)
  int kv_heads, block_size, head_dim;
};

/// One work item: the query heads of one KV head for consecutive tokens of one sequence, against keys [key0,
/// key1). Row r of the tile is query token r / group, head r % group of the KV head's group.
struct Attend {
  const float* q;  ///< first token's first query head of this group
  int64_t ldq;     ///< elements between tokens; heads of a token are head_dim apart
  float* out;      ///< same layout (ldo); written when partial is null
  int64_t ldo;
  float* partial;  ///< null, or [rows, head_dim + 2]: unnormalised accumulator, running max, sum (for merge)
  int tokens, group;
  int64_t position;    ///< position of the first query token; token t sees keys j <= position + t
  int64_t key0, key1;  ///< key0 a multiple of kSplitKeys, key1 too or the end of the keys (at most position +
                       ///< tokens); with partial exactly one split, since merge() folds splits one by one
  const int32_t* block_table;
  KvView kv;
  int kv_head;
  float scale;
  int64_t window;      ///< 0: none; else keys with position - j < window
  float softcap;       ///< 0: none; else softcap * tanh(score / softcap)
  const float* sinks;  ///< null, or [group]: one more logit in the softmax that contributes no value
  void* scratch;       ///< scratch_bytes(tokens * group, head_dim, block_size)
};

struct AttentionKernel {
  const char* name;
  int block_step;  ///< block_size must be a multiple
  int tile_rows;   ///< best number of rows (tokens x group) of a work item
  bool rounds;     ///< queries and softmax weights to bfloat16, for products with K and V
  size_t (*head_bytes)(int block_size, int head_dim);
  size_t (*scratch_bytes)(int rows, int head_dim, int block_size);
  /// Stores one token's K and V rows [head_dim] of one KV head at `offset` of its block.
  void (*write)(const float* k, const float* v, std::byte* head_block, int offset, int block_size,
                int head_dim);
  /// Reads them back (tests, debugging, swapping layouts).
  void (*read)(const std::byte* head_block, int offset, int block_size, int head_dim, float* k, float* v);
  void (*attend)(const Attend& args);
  /// Joins the partials of the same rows ("stride" floats apart), in order, into out.
  void (*merge)(const float* partials, int64_t stride, int parts, int rows, int head_dim, const float* sinks,
                int group, float* out, int64_t ldo);
};

/// Keys of one split of a long sequence. Fixed: a row's arithmetic must not depend on how many workers there
/// are, so short and prefill work items restart their accumulator at the same borders.
inline constexpr int64_t kSplitKeys = 512;

// ---- row-wise operations on float32
// -------------------------------------------------------------------------------------

struct ElementwiseKernels {
  /// y = x / sqrt(mean(x^2) + eps) * w
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t n, float* y);
  /// residual += x, then y = rms_norm(residual)
  void (*add_rms_norm)(float* residual, const float* x, const float* w, float eps, int64_t n, float* y);
  /// y = (x - mean) / sqrt(var + eps) * w + b
  void (*layer_norm)(const float* x, const float* w, const float* b, float eps, int64_t n, float* y);
  /// Rotates the first `rotary` elements in halves (x[i], x[i + rotary/2]); cos and sin are [rotary / 2].
  void (*rope)(float* x, const float* cos, const float* sin, int64_t rotary);
  void (*add)(float* x, const float* y, int64_t n);                           ///< x += y
  void (*scale)(float* x, float factor, int64_t n);                           ///< x *= factor
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* y);  ///< y = silu(gate) * up
  void (*gelu_mul)(const float* gate, const float* up, int64_t n, float* y);  ///< erf form
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t n, float* y);
  void (*relu_mul)(const float* gate, const float* up, int64_t n, float* y);
  void (*silu)(float* x, int64_t n);
  void (*gelu)(float* x, int64_t n);  ///< erf form
  void (*gelu_tanh)(float* x, int64_t n);
  void (*relu)(float* x, int64_t n);
  void (*tanh)(float* x, int64_t n);
  void (*exp)(float* x, int64_t n);  ///< x <= 88.37; +0 below -87.33
  void (*bf16_to_f32)(const uint16_t* x, int64_t n, float* y);
  void (*f32_to_bf16)(const float* x, int64_t n, uint16_t* y);
};

/// Reductions of the sampler over one row of logits.
struct SamplingKernels {
  int64_t (*argmax)(const float* x, int64_t n);  ///< first maximum; -1 if any element is NaN
  float (*max)(const float* x, int64_t n);
  float (*sum_exp)(const float* x, float max, int64_t n);              ///< sum of exp(x - max)
  void (*exp_sub)(const float* x, float max, int64_t n, float* y);     ///< y = exp(x - max)
  int64_t (*count_above)(const float* x, float threshold, int64_t n);  ///< elements >= threshold
};

struct KernelTable {
  const char* isa;
  LinearKernel linear[kNumWeightFormats];
  /// The weight-only formats where BF16 may be multiplied: activations rounded to BF16 at levels with such
  /// products, at others as in `linear`.
  LinearKernel bf16_blocks[kNumBlockFormats];
  AttentionKernel attention[kNumKvFormats];
  ElementwiseKernels elementwise;
  SamplingKernels sampling;
};

/// The table for this CPU, or for the level named by OCTAVO_ISA if that is lower. Levels: scalar,
/// avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16, amx (select.cc).
const KernelTable& select();
/// As select(), capped at `isa`; throws Error if the name is unknown. Tests run every level that the machine
/// has.
const KernelTable& select(const char* isa);
/// Names of the levels that this machine can run, lowest first, null-terminated.
const char* const* available();

}  // namespace octavo::kernels
