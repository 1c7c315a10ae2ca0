// Row-wise kernels over Vec. A sum runs in kSums accumulators of kLanes lanes each, folded in a fixed order:
// its value depends on the row alone, whatever its address.
#pragma once

#include "kernels/generic/exp.inl"

constexpr int kSums = 4;
constexpr int64_t kStep = kSums * kLanes;

/// Sum of f(Vec of x, its index) over n elements; f must map the zeros that fill the last Vec to zero.
template <class F>
OCTAVO_INLINE float sum_of(const float* x, int64_t n, F f) {
  Vec sum[kSums] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep)
    for (int u = 0; u < kSums; ++u) sum[u] = sum[u] + f(load(x + i + u * kLanes), i + u * kLanes);
  for (; i + kLanes <= n; i += kLanes) sum[0] = sum[0] + f(load(x + i), i);
  if (i < n) sum[1] = sum[1] + f(load_first(x + i, static_cast<int>(n - i)), i);
  return reduce_add((sum[0] + sum[2]) + (sum[1] + sum[3]));
}

/// y[i] = f(x[i]): f maps a Vec and a loader of other rows at the same place.
struct FullLoad {
  int64_t i;
  OCTAVO_INLINE Vec operator()(const float* p) const { return load(p + i); }
};
struct TailLoad {
  int64_t i;
  int n;
  OCTAVO_INLINE Vec operator()(const float* p) const { return load_first(p + i, n); }
};
template <class F>
OCTAVO_INLINE void map(float* y, int64_t n, F f) {
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + kLanes <= n; i += kLanes) store(y + i, f(FullLoad{i}));
  const int rest = static_cast<int>(n - i);
  if (rest) store_first(y + i, f(TailLoad{i, rest}), rest);
}

/// 1 / sqrt(mean + eps). Squares that overflowed would scale their row to zeros, which looks like a result
/// (token 0 for ever, BL-42): it becomes NaN, and with it the logits.
OCTAVO_INLINE float inverse_root(float squares, float eps, int64_t n) {
  const float mean = squares / static_cast<float>(n);
  return mean <= __FLT_MAX__ ? 1.0f / __builtin_sqrtf(mean + eps) : __builtin_nanf("");
}

OCTAVO_INLINE float inverse_rms(const float* x, float eps, int64_t n) {
  return inverse_root(sum_of(
                          x, n, [](Vec a, int64_t) __attribute__((always_inline)) { return a * a; }),
                      eps, n);
}

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* y) {
  const Vec scale = set1(inverse_rms(x, eps, n));
  map(y, n, [=](auto at) { return at(x) * scale * at(w); });
}

void add_rms_norm(float* residual, const float* x, const float* w, float eps, int64_t n, float* y) {
  map(residual, n, [=](auto at) { return at(residual) + at(x); });
  rms_norm(residual, w, eps, n, y);
}

void layer_norm(const float* x, const float* w, const float* b, float eps, int64_t n, float* y) {
  const float mean = sum_of(x, n, [](Vec a, int64_t) { return a; }) / static_cast<float>(n);
  const Vec m = set1(mean);
  // Two passes (x is in L1): E[x^2] - mean^2 cancels when the mean is large against the deviation.
  const float squares = sum_of(x, n, [=](Vec a, int64_t i) {
    Vec d = a - m;
    if (i + kLanes > n) d = keep(lanes_between(0, static_cast<int>(n - i)), d);
    return d * d;
  });
  const Vec scale = set1(inverse_root(squares, eps, n));
  map(y, n, [=](auto at) {
    const Vec scaled = (at(x) - m) * scale * at(w);
    return b ? scaled + at(b) : scaled;
  });
}

void rope(float* x, const float* cos, const float* sin, int64_t rotary) {
  const int64_t half = rotary / 2;
  float* second = x + half;
  auto rotate = [=](auto at, Vec& a, Vec& b) {
    const Vec low = at(x), high = at(second), c = at(cos), s = at(sin);
    a = fnma(high, s, low * c);
    b = fma(low, s, high * c);
  };
  int64_t i = 0;
  Vec a, b;
  for (; i + kLanes <= half; i += kLanes) {
    rotate(FullLoad{i}, a, b);
    store(x + i, a);
    store(second + i, b);
  }
  if (const int rest = static_cast<int>(half - i); rest) {
    rotate(TailLoad{i, rest}, a, b);
    store_first(x + i, a, rest);
    store_first(second + i, b, rest);
  }
}

void add(float* x, const float* y, int64_t n) {
  map(x, n, [=](auto at) { return at(x) + at(y); });
}
void scale(float* x, float factor, int64_t n) {
  map(x, n, [=](auto at) { return at(x) * set1(factor); });
}

OCTAVO_INLINE Vec silu_of(Vec x) { return x / (set1(1.0f) + exp(min(set1(kExpHigh), zero() - x))); }
OCTAVO_INLINE Vec gelu_of(Vec x) { return x * normal_cdf(x); }
/// x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), written as x sigmoid(2u): no cancellation at
/// negative x.
OCTAVO_INLINE Vec gelu_tanh_of(Vec x) {
  const Vec u = x * fma(x * x, set1(0.0713548162726f), set1(1.59576912161f));  // 2 sqrt(2/pi) (0.044715, 1)
  return x / (set1(1.0f) + exp(min(set1(kExpHigh), zero() - u)));
}

void silu_mul(const float* gate, const float* up, int64_t n, float* y) {
  map(y, n, [=](auto at) { return silu_of(at(gate)) * at(up); });
}
void gelu_mul(const float* gate, const float* up, int64_t n, float* y) {
  map(y, n, [=](auto at) { return gelu_of(at(gate)) * at(up); });
}
void gelu_tanh_mul(const float* gate, const float* up, int64_t n, float* y) {
  map(y, n, [=](auto at) { return gelu_tanh_of(at(gate)) * at(up); });
}
void relu_mul(const float* gate, const float* up, int64_t n, float* y) {
  map(y, n, [=](auto at) { return max(zero(), at(gate)) * at(up); });
}
void silu(float* x, int64_t n) {
  map(x, n, [=](auto at) { return silu_of(at(x)); });
}
void gelu(float* x, int64_t n) {
  map(x, n, [=](auto at) { return gelu_of(at(x)); });
}
void gelu_tanh(float* x, int64_t n) {
  map(x, n, [=](auto at) { return gelu_tanh_of(at(x)); });
}
void relu(float* x, int64_t n) {
  map(x, n, [=](auto at) { return max(zero(), at(x)); });  // the second operand wins: NaN stays
}
void tanh_rows(float* x, int64_t n) {
  map(x, n, [=](auto at) { return tanh(at(x)); });
}
void exp_rows(float* x, int64_t n) {
  map(x, n, [=](auto at) { return exp(at(x)); });
}

void bf16_to_f32(const uint16_t* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, load_bf16(x + i));
  for (; i < n; ++i) y[i] = __builtin_bit_cast(float, static_cast<uint32_t>(x[i]) << 16);
}

void f32_to_bf16(const float* x, int64_t n, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_bf16(y + i, load(x + i));
  if (const int rest = static_cast<int>(n - i); rest) {
    uint16_t last[kLanes];
    store_bf16(last, load_first(x + i, rest));
    for (int j = 0; j < rest; ++j) y[i + j] = last[j];
  }
}

constexpr ElementwiseKernels kElementwise = {
    .rms_norm = rms_norm,
    .add_rms_norm = add_rms_norm,
    .layer_norm = layer_norm,
    .rope = rope,
    .add = add,
    .scale = scale,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .gelu_tanh_mul = gelu_tanh_mul,
    .relu_mul = relu_mul,
    .silu = silu,
    .gelu = gelu,
    .gelu_tanh = gelu_tanh,
    .relu = relu,
    .tanh = tanh_rows,
    .exp = exp_rows,
    .bf16_to_f32 = bf16_to_f32,
    .f32_to_bf16 = f32_to_bf16,
};
