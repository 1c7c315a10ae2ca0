// What the KV formats keep of a token, on every ISA. (Attention itself: ops/attention_test.cc.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

double e4m3(int code) {
  const int e = code >> 3 & 15, m = code & 7;
  const double magnitude = e ? std::ldexp(1 + m / 8.0, e - 7) : std::ldexp(m / 8.0, -6);
  return code & 128 ? -magnitude : magnitude;
}

/// The nearest of all codes but NaN, the even one of two; by search.
double nearest_e4m3(double x) {
  int best = 0;
  for (int code = 0; code < 127; ++code) {
    const double old = std::fabs(e4m3(best) - std::fabs(x)), now = std::fabs(e4m3(code) - std::fabs(x));
    if (now < old || (now == old && code % 2 == 0)) best = code;
  }
  return std::copysign(e4m3(best), x);
}

/// `kept` of x[i], a row whose largest magnitude is `highest`.
void check(KvFormat format, float x, float kept, float highest) {
  switch (format) {
    case KvFormat::kF32:
      ASSERT_EQ(kept, x);
      return;
    case KvFormat::kBF16:
      ASSERT_EQ(kept, to_float(to_bf16(x)));
      return;
    case KvFormat::kFP8:
      ASSERT_EQ(kept, nearest_e4m3(x)) << x;
      return;
    case KvFormat::kInt8:
      ASSERT_LE(std::fabs(kept - x), highest / 127 * 0.50001f) << x;
      return;
    default:
      FAIL();
  }
}

TEST(KvFormats, KeepTokensWhereTheyWerePut) {
  std::mt19937 gen(1);
  std::normal_distribution<float> normal;
  for (int f = 0; f < kNumKvFormats; ++f)
    for (const std::string& isa : test_levels([&](const KernelTable& t) { return t.attention[f].attend; })) {
      const AttentionKernel& kernel = select(isa.c_str()).attention[f];
      for (auto [block_size, dim] : {std::pair{16, 64}, {32, 15}, {16, 1}, {48, 22}, {16, 256}}) {
        SCOPED_TRACE(str(kernel.name, " block ", block_size, " dim ", dim));
        ASSERT_EQ(block_size % kernel.block_step, 0);
        std::vector<std::byte> block(kernel.head_bytes(block_size, dim), std::byte{0xff});
        std::vector<float> k(block_size * dim), v(k.size()), back_k(dim), back_v(dim);
        for (size_t i = 0; i < k.size(); ++i) {
          const float scale =
              std::exp(4 * normal(gen) - 2);  // FP8's subnormals and saturation are among them
          k[i] = scale * normal(gen);
          v[i] = i % 7 == 0 ? 0 : scale * normal(gen);
        }
        std::vector<int> order(block_size);
        for (int t = 0; t < block_size; ++t) order[t] = t;
        std::shuffle(order.begin(), order.end(), gen);
        for (int t : order) kernel.write(&k[t * dim], &v[t * dim], block.data(), t, block_size, dim);
        for (int t = 0; t < block_size; ++t) {
          kernel.read(block.data(), t, block_size, dim, back_k.data(), back_v.data());
          float high_k = 0, high_v = 0;
          for (int d = 0; d < dim; ++d) {
            high_k = std::max(high_k, std::fabs(k[t * dim + d]));
            high_v = std::max(high_v, std::fabs(v[t * dim + d]));
          }
          for (int d = 0; d < dim; ++d) {
            ASSERT_NO_FATAL_FAILURE(check(static_cast<KvFormat>(f), k[t * dim + d], back_k[d], high_k));
            ASSERT_NO_FATAL_FAILURE(check(static_cast<KvFormat>(f), v[t * dim + d], back_v[d], high_v));
          }
        }
      }
    }
}

}  // namespace
}  // namespace octavo::kernels
