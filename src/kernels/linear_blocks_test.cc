// Weight-only kernels of every level: against the scalar kernel's weights in double, and against
// themselves under other batches and splits. (That the scalar kernel's weights are the file's:
// load/quant/block_kernels_test.cc.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/table.h"
#include "kernels/test_levels.h"

namespace octavo::kernels {
namespace {

/// A format, how its blocks look (0 bytes: integers with scales), and the group of those.
struct BlockCase {
  const char* name;
  WeightFormat format;
  int elements = 32, bytes = 0;
  std::vector<int> halves = {};  ///< where a block holds float16s, which must be finite
  int64_t group = 0;             ///< 0: all of k
  bool zeros = false;
};

std::vector<BlockCase> cases() {
  using F = WeightFormat;
  return {{"q8_0", F::kQ8_0, 32, 34, {0}},
          {"q4_0", F::kQ4_0, 32, 18, {0}},
          {"q4_1", F::kQ4_1, 32, 20, {0, 2}},
          {"q5_0", F::kQ5_0, 32, 22, {0}},
          {"q5_1", F::kQ5_1, 32, 24, {0, 2}},
          {"iq4_nl", F::kIQ4_NL, 32, 18, {0}},
          {"mxfp4", F::kMXFP4, 32, 17},
          {"q2_k", F::kQ2_K, 256, 84, {80, 82}},
          {"q3_k", F::kQ3_K, 256, 110, {108}},
          {"q4_k", F::kQ4_K, 256, 144, {0, 2}},
          {"q5_k", F::kQ5_K, 256, 176, {0, 2}},
          {"q6_k", F::kQ6_K, 256, 210, {208}},
          {"w4a16_g32", F::kW4A16, 32, 0, {}, 32, true},
          {"w4a16_g128", F::kW4A16, 128, 0, {}, 128},
          {"w4a16_g96", F::kW4A16, 96, 0, {}, 96, true},
          {"w4a16_channel", F::kW4A16, 32, 0, {}, 0, true},
          {"w8a16_g64", F::kW8A16, 64, 0, {}, 64, true},
          {"w8a16_channel", F::kW8A16, 32},
          {"fp8_block", F::kFP8, 128, 0, {}, 128},
          {"fp8_channel", F::kFP8, 32},
          {"mxfp4_codes", F::kMXFP4, 32, 0, {}, 32}};
}

/// Random weights [n, k] of a case, as pack() reads them.
struct Source {
  int64_t n, k, group;
  std::vector<std::byte> blocks;
  std::vector<int8_t> q, zeros;
  std::vector<float> scales;
  const BlockCase& c;

  Source(const BlockCase& c_in, int64_t n_in, int64_t k_in)
      : n(n_in), k(k_in), group(c_in.group ? c_in.group : k), c(c_in) {
    std::mt19937 gen(static_cast<unsigned>(n * k));
    if (c.bytes)
      fill_blocks(gen);
    else
      fill_integers(gen);
  }
  void fill_integers(std::mt19937& gen) {
    q.resize(n * k);
    scales.resize(n * k / group);
    for (int8_t& v : q) {
      v = static_cast<int8_t>(gen());
      if (c.format == WeightFormat::kW4A16) v = static_cast<int8_t>(v >> 4);
      if (c.format == WeightFormat::kMXFP4) v &= 15;
      if (c.format == WeightFormat::kFP8 && (v & 127) == 127) v = 0;  // not a number
    }
    for (float& s : scales) {
      s = static_cast<float>(gen() % 255 + 1) / 8192;
      if (c.format == WeightFormat::kMXFP4) s = std::ldexp(1.0f, static_cast<int>(gen() % 8) - 8);
      if (c.format == WeightFormat::kFP8) s = std::nextafter(s, 1.0f);  // all bits of a float
    }
    if (c.zeros) zeros.resize(scales.size());
    for (int8_t& z : zeros)
      z = static_cast<int8_t>(c.format == WeightFormat::kW4A16 ? gen() % 17 - 8 : gen() % 256 - 128);
  }
  void fill_blocks(std::mt19937& gen) {
    blocks.resize(n * k / c.elements * c.bytes);
    for (std::byte& b : blocks) b = static_cast<std::byte>(gen());
    for (size_t i = 0; i < blocks.size(); i += c.bytes) {
      for (int at : c.halves) {
        const uint16_t half = static_cast<uint16_t>((gen() & 0x83ff) | (gen() % 6 + 6) << 10);
        std::memcpy(&blocks[i + at], &half, 2);
      }
      if (c.halves.empty()) blocks[i] = static_cast<std::byte>(118 + gen() % 12);
    }
  }
  WeightRows rows(int64_t n0) const {
    WeightRows out;
    if (c.bytes) {
      out.block_row_bytes = k / c.elements * c.bytes;
      out.blocks = blocks.data() + n0 * out.block_row_bytes;
      return out;
    }
    out.q = q.data() + n0 * k;
    out.scales = scales.data() + n0 * (k / group);
    if (!zeros.empty()) out.zeros = zeros.data() + n0 * (k / group);
    return out;
  }
};

struct Packed {
  const LinearKernel& kernel;
  LinearShape shape;
  std::vector<std::byte> bytes;
  std::vector<float> bias = {};

  Packed(const LinearKernel& k, const Source& source)
      : kernel(k), shape(shape_of(source)), bytes(k.packed_bytes(shape)) {
    for (int64_t n0 = 0; n0 < shape.n; n0 += 2 * kernel.n_step)
      kernel.pack(source.rows(n0), n0, std::min(shape.n, n0 + 2 * kernel.n_step), shape, bytes.data());
  }
  static LinearShape shape_of(const Source& source) {
    LinearShape shape{source.n, source.k, source.group};
    shape.has_zeros = source.c.zeros;
    return shape;
  }
  /// y [m, n + 3] in pieces of at most `rows` and `columns`.
  void run(const float* x, int64_t ldx, int64_t m, float* y, bool accumulate, int64_t rows = 1 << 20,
           int64_t columns = 1 << 20) const {
    LinearRun a{};
    std::vector<std::byte> prepared(kernel.prepared_bytes(m, shape));
    if (kernel.prepare) kernel.prepare(x, ldx, 0, m, m, shape, prepared.data());
    a.prepared = prepared.data();
    a.packed = bytes.data();
    a.x = x, a.ldx = ldx, a.y = y, a.ldy = shape.n + 3;
    a.bias = bias.empty() ? nullptr : bias.data();
    a.shape = shape;
    a.m = m;
    a.accumulate = accumulate;
    for (a.n0 = 0; a.n0 < shape.n; a.n0 = a.n1)
      for (a.m0 = 0, a.n1 = std::min(shape.n, a.n0 + columns); a.m0 < m; a.m0 = a.m1) {
        a.m1 = std::min(m, a.m0 + rows);
        kernel.run(a);
      }
  }
  /// W [n, k], read with unit vectors.
  std::vector<float> weights() const {
    std::vector<float> x(shape.k), y(shape.n + 3), out(shape.n * shape.k);
    for (int64_t i = 0; i < shape.k; ++i) {
      x[i] = 1;
      run(x.data(), shape.k, 1, y.data(), false);
      for (int64_t c = 0; c < shape.n; ++c) out[c * shape.k + i] = y[c];
      x[i] = 0;
    }
    return out;
  }
};

std::vector<float> random(int64_t count, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& v : out) v = normal(gen);
  return out;
}

float largest(const std::vector<float>& values) {
  float most = 0;
  for (float v : values) most = std::max(most, std::abs(v));
  return most;
}

/// bf16: where BF16 may be multiplied.
const LinearKernel& kernel_of(const KernelTable& table, WeightFormat format, bool bf16) {
  const int i = static_cast<int>(format);
  return bf16 ? table.bf16_blocks[i - kFirstBlockFormat] : table.linear[i];
}

struct Subject {
  std::string isa;
  BlockCase block_case;
  bool bf16;
};

class LinearBlocks : public testing::TestWithParam<Subject> {
 protected:
  const BlockCase& block_case() { return GetParam().block_case; }
  const LinearKernel& kernel() {
    return kernel_of(select(GetParam().isa.c_str()), block_case().format, GetParam().bf16);
  }
  const LinearKernel& exact() { return kernel_of(select("scalar"), block_case().format, false); }
  int64_t inputs(int64_t k) const {
    const int64_t step = std::max<int64_t>(GetParam().block_case.elements, 32);
    return (k + step - 1) / step * step;
  }
};

TEST_P(LinearBlocks, EqualsItsWeightsInDouble) {
  for (auto [n, k_least] : {std::pair<int64_t, int64_t>{1, 32}, {17, 96}, {9, 704}}) {
    const Source source(block_case(), n, inputs(k_least));
    const int64_t k = source.k;
    Packed packed(kernel(), source);
    const std::vector<float> w = Packed(exact(), source).weights();
    const std::vector<float> own = packed.weights();
    const WeightFormat format = block_case().format;
    const bool offset = GetParam().bf16 && (format == WeightFormat::kQ5_0 || block_case().elements == 256);
    const bool two_terms =  // which are added apart
        block_case().halves.size() == 2 || block_case().zeros || format == WeightFormat::kW8A16 || offset;
    for (int64_t i = 0; i < n * k; ++i)
      ASSERT_NEAR(own[i], w[i], two_terms ? 1e-6f * largest(w) : 0) << "row " << i / k << " input " << i % k;
    for (int64_t m : {1, 2, 3, 5, 14}) {
      auto x = random(m * (k + 5), 2);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t i = k; i < k + 5; ++i) x[r * (k + 5) + i] = NAN;  // past a row's end
      packed.bias = random(n, 3);
      std::vector<float> y = random(m * (n + 3), 4);
      const std::vector<float> before = y;
      packed.run(x.data(), k + 5, m, y.data(), true);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n + 3; ++c) {
          double want = before[r * (n + 3) + c], size = 0;
          for (int64_t i = 0; c < n && i < k; ++i) {
            const float value = x[r * (k + 5) + i];
            const double product =
                static_cast<double>(GetParam().bf16 ? to_float(to_bf16(value)) : value) * w[c * k + i];
            want += product, size += std::abs(product);
          }
          if (c < n) want += packed.bias[c];
          ASSERT_NEAR(y[r * (n + 3) + c], want, 2e-6 * size + 1e-6) << "m " << m << ": " << r << ", " << c;
        }
    }
  }
}

TEST_P(LinearBlocks, BitsDoNotDependOnTheSplit) {
  for (auto [n, k_least] : {std::pair<int64_t, int64_t>{13, 704}, {8, 512}, {19, 96}}) {
    const Source source(block_case(), n, inputs(k_least));
    const int64_t k = source.k, m = 33;
    Packed packed(kernel(), source);
    packed.bias = random(n, 3);
    const auto x = random(m * k, 2);
    std::vector<float> alone(m * (n + 3), 0.25f);
    for (int64_t r = 0; r < m; ++r) packed.run(&x[r * k], k, 1, &alone[r * (n + 3)], true);
    for (int64_t count : {1, 2, 3, 4, 5, 6, 7, 8, 13, 33})
      for (int64_t columns : {int64_t{1} << 20, int64_t{packed.kernel.n_step}})
        for (int64_t rows : {int64_t{1} << 20, 2 * int64_t{packed.kernel.m_step}}) {
          std::vector<float> y(m * (n + 3), 0.25f);
          packed.run(x.data(), k, count, y.data(), true, rows, columns);
          ASSERT_EQ(std::memcmp(y.data(), alone.data(), count * (n + 3) * sizeof(float)), 0)
              << "n " << n << " k " << k << " m " << count << " columns " << columns << " rows " << rows;
        }
  }
}

// A large batch passes a panel's inputs in parts, and rows in several blocks: the same bits again.
TEST_P(LinearBlocks, BitsDoNotDependOnTheOrderOfBlocks) {
  const Source source(block_case(), 11, inputs(1100));
  const int64_t n = source.n, k = source.k, m = 200;
  Packed packed(kernel(), source);
  const auto x = random(m * k, 2);
  std::vector<float> at_once(m * (n + 3)), alone(n + 3);
  packed.run(x.data(), k, m, at_once.data(), false);
  for (int64_t r = 0; r < m; r += 23) {
    packed.run(&x[r * k], k, 1, alone.data(), false);
    ASSERT_EQ(std::memcmp(&at_once[r * (n + 3)], alone.data(), n * sizeof(float)), 0) << r;
  }
}

TEST_P(LinearBlocks, BadValuesStayInTheirRow) {
  const Source source(block_case(), 10, inputs(300));
  Packed packed(kernel(), source);
  const int64_t n = source.n, k = source.k;
  for (int64_t m : {1, 2, 5})
    for (float bad : {NAN, INFINITY}) {
      auto x = random(m * k, 2);
      x[(m - 1) * k + 7] = bad;
      std::vector<float> y(m * (n + 3));
      packed.run(x.data(), k, m, y.data(), false);
      for (int64_t r = 0; r < m; ++r)
        for (int64_t c = 0; c < n; ++c)
          ASSERT_EQ(std::isfinite(y[r * (n + 3) + c]), r != m - 1) << m << ": " << r << ", " << c;
    }
}

std::vector<Subject> own_kernels() {
  std::vector<Subject> out;
  for (const BlockCase& c : cases()) {
    for (const std::string& isa :
         test_levels([&](const KernelTable& t) { return kernel_of(t, c.format, false).run; }))
      out.push_back({isa, c, false});
    for (const std::string& isa :
         test_levels([&](const KernelTable& t) { return kernel_of(t, c.format, true).run; }))
      if (kernel_of(select(isa.c_str()), c.format, true).run !=
          kernel_of(select(isa.c_str()), c.format, false).run)
        out.push_back({isa, c, true});
  }
  return out;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LinearBlocks);  // OCTAVO_TEST_LEVELS may leave none
INSTANTIATE_TEST_SUITE_P(Levels, LinearBlocks, testing::ValuesIn(own_kernels()), [](const auto& p) {
  return p.param.isa + (p.param.bf16 ? "_rounded_" : "_") + p.param.block_case.name;
});

}  // namespace
}  // namespace octavo::kernels
