// exp, tanh and the normal distribution over Vec. Needs the ISA's vec.h. Coefficients are our own minimax
// fits (Lawson iteration over Chebyshev nodes, relative error); elementwise_test.cc measures every bound
// stated here: exp over all floats, exp2 and tanh over every 509th (OCTAVO_STRIDE=1: all).
#pragma once

// exp() is for x <= kExpHigh: nobody here needs more, and 2^128 is not a float. Below kExpLow the result is
// +0, which is off by at most 1.2e-38 (2^n for a subnormal would take a second multiplication).
constexpr float kExpHigh = 88.37f, kExpLow = -87.3365402f;

/// exp(x) for x <= kExpHigh: relative error at most 1.2e-7 (all floats checked); exactly 1 at 0, exactly 0 at
/// -inf, NaN at NaN. exp(x) = 2^n * p(r) with n = round(x / ln 2), r = x - n ln 2 in two steps, p of degree 6
/// (fit: 3e-9).
OCTAVO_INLINE Vec exp(Vec x) {
  const Vec magic =
      set1(12582912.0f);  // 1.5 * 2^23: the low mantissa bits of the sum are the rounded integer
  const Vec shifted = fma(x, set1(1.44269504f), magic), n = shifted - magic;
  Vec r = fnma(n, set1(0.693145752f), x);  // 15 bits, so that n * hi is exact without FMA too
  r = fnma(n, set1(1.42860677e-6f), r);
  Vec p = set1(0.00138145988f);
  p = fma(p, r, set1(0.00836871658f));
  p = fma(p, r, set1(0.041668389f));
  p = fma(p, r, set1(0.166665211f));
  p = fma(p, r, set1(0.49999994f));
  p = fma(p * r, r, r) + set1(1.0f);
  return keep(not_less(x, set1(kExpLow)), p * pow2(shifted));
}

/// 2^x for x <= 127: relative error at most 1.2e-7, exactly 1 at 0 and 0 at -inf, NaN at NaN, +0 below -126.
/// Three multiplications less than exp; attention keeps its scores in units of log 2 for it.
OCTAVO_INLINE Vec exp2(Vec x) {
  const Vec magic = set1(12582912.0f);
  const Vec shifted = x + magic, f = x - (shifted - magic);
  Vec p = set1(0.000153533416f);
  p = fma(p, f, set1(0.00133989006f));
  p = fma(p, f, set1(0.00961843785f));
  p = fma(p, f, set1(0.0555033237f));
  p = fma(p, f, set1(0.240226477f));
  p = fma(p, f, set1(0.693147182f));
  p = fma(p, f, set1(1.0f));
  return keep(not_less(x, set1(-126.0f)), p * pow2(shifted));
}

/// tanh(x): relative error at most 3e-7, sign of zero kept.
OCTAVO_INLINE Vec tanh(Vec x) {
  const Vec a = abs(x), s = a * a;
  Vec p = set1(-0.00570498733f);
  p = fma(p, s, set1(0.020639088f));
  p = fma(p, s, set1(-0.0537397154f));
  p = fma(p, s, set1(0.133314416f));
  p = fma(p, s, set1(-0.333332807f));
  const Vec small = fma(p * s, a, a);
  const Vec large = set1(1.0f) - set1(2.0f) / (exp(min(set1(40.0f), a + a)) + set1(1.0f));
  return copy_sign(select(a < set1(0.625f), small, large), x);
}

/// Normal distribution function Phi(x) = erfc(-x / sqrt 2) / 2, relative error at most 1e-6 in the lower tail
/// too. erfc(z) = exp(-z^2) erfcx(z); erfcx(z) = t P(t) with t = 1 / (1 + 0.3 z) (fit: 2e-8 on z in [0, 11]).
OCTAVO_INLINE Vec normal_cdf(Vec x) {
  const Vec a = abs(x);
  const Vec t = set1(1.0f) / fma(a, set1(0.212132034f), set1(1.0f));  // 0.3 / sqrt 2
  Vec p = set1(-0.129556045f);
  p = fma(p, t, set1(0.485737205f));
  p = fma(p, t, set1(-0.512669802f));
  p = fma(p, t, set1(0.548213065f));
  p = fma(p, t, set1(-0.0950295776f));
  p = fma(p, t, set1(0.215107769f));
  p = fma(p, t, set1(0.148286119f));
  p = fma(p, t, set1(0.170723826f));
  p = fma(p, t, set1(0.169187412f));
  // x^2 is rounded; what FMA recovers of it enters to first order (in the tail x^2 / 2 is 80: 5e-6 of
  // relative error).
  const Vec square = min(set1(400.0f), a * a), lost = keep(square < set1(400.0f), fma(a, a, zero() - square));
  const Vec density = exp(set1(-0.5f) * square);
  const Vec tail = set1(0.5f) * t * p * fnma(set1(0.5f) * lost, density, density);
  return select(x < zero(), tail, set1(1.0f) - tail);
}
