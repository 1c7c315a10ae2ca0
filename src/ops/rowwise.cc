#include "ops/rowwise.h"

#include <cstring>

#include "base/error.h"
#include "ops/fork.h"

namespace octavo {

void rms_norm(OpContext& ctx, const float* x, int64_t ldx, const float* w, float eps, int64_t rows, int64_t n,
              float* y, int64_t ldy) {
  for_ranges(ctx.team, rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      ctx.kernels.elementwise.rms_norm(x + r * ldx, w, eps, n, y + r * ldy);
  });
}

void add_rms_norm(OpContext& ctx, float* residual, const float* x, const float* w, float eps, int64_t rows,
                  int64_t n, float* y) {
  if (!x) return rms_norm(ctx, residual, n, w, eps, rows, n, y, n);
  for_ranges(ctx.team, rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      ctx.kernels.elementwise.add_rms_norm(residual + r * n, x + r * n, w, eps, n, y + r * n);
  });
}

void layer_norm(OpContext& ctx, const float* x, const float* w, const float* b, float eps, int64_t rows,
                int64_t n, float* y) {
  for_ranges(ctx.team, rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      ctx.kernels.elementwise.layer_norm(x + r * n, w, b, eps, n, y + r * n);
  });
}

void add(OpContext& ctx, float* x, const float* y, int64_t count) {
  for_ranges(ctx.team, count, 1, [&](int64_t begin, int64_t end) {
    ctx.kernels.elementwise.add(x + begin, y + begin, end - begin);
  });
}

void rope(OpContext& ctx, const RopeTable& table, const int32_t* positions, int64_t tokens, float* x,
          int64_t ldx, int heads, int head_dim) {
  const int64_t half = table.rotary / 2;
  for_ranges(ctx.team, tokens, int64_t{heads} * table.rotary, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const float* cos = table.cos.data() + positions[t] * half;
      const float* sin = table.sin.data() + positions[t] * half;
      for (int h = 0; h < heads; ++h)
        ctx.kernels.elementwise.rope(x + t * ldx + int64_t{h} * head_dim, cos, sin, table.rotary);
    }
  });
}

namespace {

constexpr int64_t kActivationCost = 3;  ///< of an element, against one of a norm: an exp and a division
constexpr int64_t kColumns = 2048;      ///< of a row that a piece takes: one decode row splits too

/// f(row, first column, columns) over rows x n, in pieces of whole rows or of kColumns columns.
template <class F>
void for_tiles(OpContext& ctx, int64_t rows, int64_t n, const F& f) {
  const int64_t strips = (n + kColumns - 1) / kColumns;
  for_ranges(ctx.team, rows * strips, kActivationCost * std::min(n, kColumns),
             [&](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t column = i % strips * kColumns;
                 f(i / strips, column, std::min(kColumns, n - column));
               }
             });
}

using InPlace = void (*)(float* x, int64_t n);
InPlace in_place(const kernels::ElementwiseKernels& k, Activation act) {
  switch (act) {
    case Activation::kSilu:
      return k.silu;
    case Activation::kGelu:
      return k.gelu;
    case Activation::kGeluTanh:
      return k.gelu_tanh;
    case Activation::kRelu:
      return k.relu;
  }
  OCTAVO_CHECK(false, "activation ", static_cast<int>(act));
}

using Gated = void (*)(const float* gate, const float* up, int64_t n, float* y);
Gated gated(const kernels::ElementwiseKernels& k, Activation act) {
  switch (act) {
    case Activation::kSilu:
      return k.silu_mul;
    case Activation::kGelu:
      return k.gelu_mul;
    case Activation::kGeluTanh:
      return k.gelu_tanh_mul;
    case Activation::kRelu:
      return k.relu_mul;
  }
  OCTAVO_CHECK(false, "activation ", static_cast<int>(act));
}

}  // namespace

void gated_activation(OpContext& ctx, Activation act, const float* x, int64_t ldx, int64_t rows, int64_t n,
                      float* y) {
  const Gated f = gated(ctx.kernels.elementwise, act);
  for_tiles(ctx, rows, n, [&](int64_t row, int64_t column, int64_t count) {
    const float* gate = x + row * ldx + column;
    f(gate, gate + n, count, y + row * n + column);
  });
}

void activation(OpContext& ctx, Activation act, float* x, int64_t rows, int64_t n) {
  const InPlace f = in_place(ctx.kernels.elementwise, act);
  for_tiles(ctx, rows, n,
            [&](int64_t row, int64_t column, int64_t count) { f(x + row * n + column, count); });
}

void embedding(OpContext& ctx, const EmbeddingView& table, const int32_t* ids, int64_t tokens, float* y) {
  const int64_t n = table.hidden;
  for_ranges(ctx.team, tokens, n, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      OCTAVO_CHECK(ids[t] >= 0 && ids[t] < table.vocab, "token ", ids[t], " of ", table.vocab);
      const uint8_t* row = static_cast<const uint8_t*>(table.rows) + ids[t] * table.row_bytes;
      if (table.decode)
        table.decode(row, table.row_blocks, y + t * n);
      else if (table.bf16)
        ctx.kernels.elementwise.bf16_to_f32(reinterpret_cast<const uint16_t*>(row), n, y + t * n);
      else
        std::memcpy(y + t * n, row, n * sizeof(float));
    }
  });
}

}  // namespace octavo
