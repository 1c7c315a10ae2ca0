// Paged attention on every ISA that the machine runs: against double precision, and bit for bit against
// itself however a sequence is cut into steps, batched with others, laid out in blocks or split over workers.
#include "ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/test_levels.h"

namespace octavo {
namespace {

using kernels::KvFormat;

struct Case {
  int heads = 4, kv_heads = 2, head_dim = 64, block_size = 16;
  int64_t window = 0;
  float softcap = 0;
  bool sinks = false;
};

std::vector<float> random_floats(int64_t count, std::mt19937& gen) {
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(gen);
  return out;
}

/// One sequence's q, k, v for all of its positions.
struct Sequence {
  int length;
  std::vector<float> q, k, v;
};

/// A KV cache whose memory starts as NaN, with blocks handed out in random order.
class Cache {
 public:
  Cache(const kernels::KernelTable& table, KvFormat format, const Case& c, int blocks, std::mt19937& gen)
      : free_(blocks) {
    const auto& kernel = table.attention[static_cast<int>(format)];
    const int64_t head_bytes = static_cast<int64_t>(kernel.head_bytes(c.block_size, c.head_dim));
    memory_.resize(static_cast<size_t>(head_bytes) * c.kv_heads * blocks + 64, std::byte{0xff});
    auto address = reinterpret_cast<uintptr_t>(memory_.data());
    kv = {format,
          {memory_.data() + (64 - address % 64) % 64, head_bytes, c.kv_heads, c.block_size, c.head_dim}};
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), gen);
  }
  int take() {
    EXPECT_FALSE(free_.empty());
    const int block = free_.back();
    free_.pop_back();
    return block;
  }
  LayerKv kv;

 private:
  std::vector<std::byte> memory_;
  std::vector<int> free_;
};

/// What of each sequence a step computes.
struct Part {
  int seq, begin, count;
};

class Runner {
 public:
  Runner(const char* isa, int workers, KvFormat format, const Case& c, const std::vector<Sequence>& sequences,
         unsigned seed)
      : c_(c),
        sequences_(sequences),
        gen_(seed),
        team_(TeamOptions{std::vector<int>(workers, 0), false}),
        ctx_{team_, workspace_, kernels::select(isa)},
        cache_(ctx_.kernels, format, c, blocks_needed(), gen_) {
    max_blocks_ = 1;
    for (const Sequence& s : sequences)
      max_blocks_ = std::max(max_blocks_, (s.length + c.block_size - 1) / c.block_size);
    tables_.assign(sequences.size(), std::vector<int32_t>(max_blocks_, -1));
    for (const Sequence& s : sequences) out.emplace_back(int64_t{s.length} * row());
    kept_.resize(sequences.size(), Sequence{});
    sinks_.resize(c.heads);
    for (int h = 0; h < c.heads; ++h) sinks_[h] = 0.5f * static_cast<float>(h) - 1;
  }

  void step(const std::vector<Part>& parts) {
    std::vector<int32_t> positions, slots, query_start{0}, context, tables;
    std::vector<float> q, k, v;
    for (const Part& p : parts) {
      const Sequence& s = sequences_[p.seq];
      auto& table = tables_[p.seq];
      for (int t = p.begin; t < p.begin + p.count; ++t) {
        int32_t& block = table[t / c_.block_size];
        if (t % c_.block_size == 0) block = cache_.take();
        positions.push_back(t);
        slots.push_back(block * c_.block_size + t % c_.block_size);
      }
      // Blocks that the window has passed for the first token of this step are gone.
      if (c_.window)
        for (int b = 0; (b + 1) * c_.block_size <= p.begin + 1 - c_.window; ++b) table[b] = -1;
      tables.insert(tables.end(), table.begin(), table.end());
      query_start.push_back(static_cast<int32_t>(positions.size()));
      context.push_back(p.begin + p.count);
      auto append = [&](std::vector<float>& to, const std::vector<float>& from, int64_t width) {
        to.insert(to.end(), from.begin() + p.begin * width, from.begin() + (p.begin + p.count) * width);
      };
      append(q, s.q, row());
      append(k, s.k, kv_row());
      append(v, s.v, kv_row());
    }
    const KvGroupStep group{tables.data(), max_blocks_, slots.data()};
    const int tokens = static_cast<int>(positions.size());
    const StepInput input{
        tokens, nullptr, positions.data(), static_cast<int>(parts.size()), query_start.data(), context.data(),
        &group, 0,       nullptr};
    const AttentionShape shape{c_.heads,
                               c_.kv_heads,
                               c_.head_dim,
                               1 / std::sqrt(static_cast<float>(c_.head_dim)),
                               c_.window,
                               c_.softcap,
                               c_.sinks ? sinks_.data() : nullptr};
    std::vector<float> result(tokens * row());
    write_kv(ctx_, input, group, cache_.kv, k.data(), kv_row(), v.data(), kv_row());
    attention(ctx_, input, group, cache_.kv, shape, q.data(), row(), result.data(), row());
    bound_ = std::max(bound_, attention_workspace(ctx_, shape, tokens, static_cast<int>(parts.size()),
                                                  int64_t{max_blocks_} * c_.block_size));
    ASSERT_LE(workspace_.peak(), bound_);
    const float* from = result.data();
    for (const Part& p : parts) {
      std::memcpy(out[p.seq].data() + p.begin * row(), from, p.count * row() * sizeof(float));
      from += p.count * row();
    }
  }

  void run_chunked(int seq, int first, int chunk) {
    if (first) step({{seq, 0, first}});
    for (int t = first; t < sequences_[seq].length; t += chunk)
      step({{seq, t, std::min(chunk, sequences_[seq].length - t)}});
  }

  /// The same in double precision, for one token, of K and V as the cache's format keeps them.
  std::vector<double> expected(int seq, int token) {
    const Sequence& s = kept(seq);
    std::vector<double> result(row());
    const int64_t first = c_.window ? std::max<int64_t>(0, token + 1 - c_.window) : 0;
    for (int h = 0; h < c_.heads; ++h) {
      const int64_t kv_at = h / (c_.heads / c_.kv_heads) * c_.head_dim;
      std::vector<double> score;
      double highest = c_.sinks ? sinks_[h] : -1e300;
      for (int64_t j = first; j <= token; ++j) {
        double sum = 0;
        for (int d = 0; d < c_.head_dim; ++d)
          sum += double(s.q[token * row() + h * c_.head_dim + d]) * s.k[j * kv_row() + kv_at + d];
        sum /= std::sqrt(double(c_.head_dim));
        if (c_.softcap != 0) sum = c_.softcap * std::tanh(sum / c_.softcap);
        score.push_back(sum);
        highest = std::max(highest, sum);
      }
      double total = c_.sinks ? std::exp(sinks_[h] - highest) : 0;
      for (double& x : score) total += x = std::exp(x - highest);
      for (int64_t j = first; j <= token; ++j)
        for (int d = 0; d < c_.head_dim; ++d)
          result[h * c_.head_dim + d] += score[j - first] / total * s.v[j * kv_row() + kv_at + d];
    }
    return result;
  }

  const Sequence& kept(int seq) {
    Sequence& s = kept_[seq];
    if (!s.length) {
      s = sequences_[seq];
      const auto& kernel = ctx_.kernels.attention[static_cast<int>(cache_.kv.format)];
      std::vector<std::byte> block(kernel.head_bytes(c_.block_size, c_.head_dim));
      for (int64_t at = 0; at < s.length * kv_row(); at += c_.head_dim) {
        kernel.write(&s.k[at], &s.v[at], block.data(), 3, c_.block_size, c_.head_dim);
        kernel.read(block.data(), 3, c_.block_size, c_.head_dim, &s.k[at], &s.v[at]);
      }
    }
    return s;
  }

  int64_t row() const { return int64_t{c_.heads} * c_.head_dim; }
  int64_t kv_row() const { return int64_t{c_.kv_heads} * c_.head_dim; }
  std::vector<std::vector<float>> out;  ///< by sequence, [length, heads * head_dim]

 private:
  int blocks_needed() const {
    int blocks = 3;
    for (const Sequence& s : sequences_) blocks += (s.length + c_.block_size - 1) / c_.block_size;
    return blocks;
  }

  const Case c_;
  const std::vector<Sequence>& sequences_;
  std::mt19937 gen_;
  Team team_;
  Workspace workspace_{size_t{256} << 20};
  OpContext ctx_;
  Cache cache_;
  int max_blocks_;
  size_t bound_ = 0;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<float> sinks_;
  std::vector<Sequence> kept_;
};

std::vector<Sequence> make_sequences(const Case& c, const std::vector<int>& lengths, unsigned seed) {
  std::mt19937 gen(seed);
  std::vector<Sequence> out;
  for (int n : lengths)
    out.push_back({n, random_floats(int64_t{n} * c.heads * c.head_dim, gen),
                   random_floats(int64_t{n} * c.kv_heads * c.head_dim, gen),
                   random_floats(int64_t{n} * c.kv_heads * c.head_dim, gen)});
  return out;
}

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFP8, KvFormat::kInt8};

/// All formats and ISAs.
template <class F>
void for_kernels(F f) {
  for (KvFormat format : kFormats) {
    const int index = static_cast<int>(format);
    for (const std::string& isa :
         kernels::test_levels([&](const kernels::KernelTable& t) { return t.attention[index].attend; })) {
      SCOPED_TRACE(str(isa, " format ", index));
      f(isa.c_str(), format);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

/// Many head shapes; sequences of these lengths, each but for its last `decoded` tokens in one step.
void equals_double_precision(const std::vector<int>& lengths, int decoded) {
  const Case cases[] = {
      {4, 2, 64},
      {8, 8, 15},
      {6, 2, 80, 32},
      {7, 1, 22},
      {4, 4, 128, 48},
      {2, 1, 96, 16, 100},
      {16, 1, 112},
      {4, 2, 256, 16, 0, 5},
      {8, 2, 16, 16, 0, 0, true},
      {32, 1, 16},
      {12, 4, 64, 64, 33, 20, true},
      {1, 1, 1},
      {9, 3, 33, 16, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(str(c.heads, "/", c.kv_heads, " heads of ", c.head_dim, ", window ", c.window));
    const auto sequences = make_sequences(c, lengths, 7);
    const int count = static_cast<int>(lengths.size());
    for_kernels([&](const char* isa, KvFormat format) {
      const bool rounds = kernels::select(isa).attention[static_cast<int>(format)].rounds;
      const double tolerance = rounds ? 0.02 : 4e-6;
      Runner runner(isa, 2, format, c, sequences, 3);
      std::vector<Part> first;
      for (int s = 0; s < count; ++s) first.push_back({s, 0, std::max(1, lengths[s] - decoded)});
      runner.step(first);
      for (int s = 0; s < count; ++s)
        for (int t = std::max(1, lengths[s] - decoded); t < lengths[s]; ++t) runner.step({{s, t, 1}});
      for (int s = 0; s < count; ++s)
        for (int t = lengths[s] - 1; t >= 0; t -= 29) {
          const auto expected = runner.expected(s, t);
          const float* out = runner.out[s].data() + t * runner.row();
          for (int64_t i = 0; i < runner.row(); ++i)
            ASSERT_NEAR(out[i], expected[i], tolerance) << s << " " << t << " " << i;
        }
    });
  }
}

TEST(Attention, EqualsDoublePrecision) { equals_double_precision({1, 2, 17, 130, 531}, 12); }
/// The same for emulators.
TEST(Attention, ShortSequencesEqualDoublePrecision) { equals_double_precision({3, 17, 140}, 2); }

// Every row: alone one by one, in chunks of 1, 7, 16 and 64, all at once, with 1, 2 or 3 workers, other block
// orders.
TEST(Attention, SameBitsHoweverComputed) {
  constexpr int kLength = 1100;  // three splits
  const Case cases[] = {
      {4, 2, 64}, {3, 1, 15, 48}, {8, 2, 32, 16, 300}, {4, 1, 80, 32, 0, 3, true}, {12, 1, 16, 16, 1000}};
  for (const Case& c : cases) {
    const auto sequences = make_sequences(c, {kLength}, 11);
    for_kernels([&](const char* isa, KvFormat format) {
      if (format >= KvFormat::kFP8 && &c != cases)
        return;  // the storage format does not touch what the others vary
      Runner whole(isa, 1, format, c, sequences, 1);
      whole.step({{0, 0, kLength}});
      struct Way {
        int workers, first, chunk;
      };
      for (Way way : {Way{1, kLength - 60, 1},
                      {2, 800, 7},
                      {1, 500, 16},
                      {3, 3, 64},
                      {3, kLength - 20, 1},
                      {2, 0, kLength}}) {
        Runner other(isa, way.workers, format, c, sequences, way.chunk);
        other.run_chunked(0, way.first, way.chunk);
        ASSERT_EQ(std::memcmp(whole.out[0].data(), other.out[0].data(), whole.out[0].size() * sizeof(float)),
                  0)
            << c.head_dim << " chunk " << way.chunk << " after " << way.first << ", workers " << way.workers;
      }
    });
  }
}

TEST(Attention, SameBitsInRaggedBatches) {
  const Case c{4, 2, 32, 16};
  std::mt19937 gen(5);
  const auto sequences = make_sequences(c, {3000, 1, 515, 77, 1600, 16}, 13);
  for_kernels([&](const char* isa, KvFormat format) {
    Runner alone(isa, 1, format, c, sequences, 1);
    for (int s = 0; s < 6; ++s) alone.step({{s, 0, sequences[s].length}});
    Runner batched(isa, 3, format, c, sequences, 2);
    std::vector<int> done(6);
    const int chunks[] = {1, 7, 16, 64, 200, 1};
    for (bool more = true; more;) {
      std::vector<Part> parts;
      for (int s = 0; s < 6; ++s) {
        int count = std::min(chunks[gen() % 6], sequences[s].length - done[s]);
        if (s == 0 && done[0] == 0) count = 2900;
        if (s == 4 && done[4] == 0) count = 1400;
        if (count == 0 || gen() % 4 == 0) continue;
        parts.push_back({s, done[s], count});
        done[s] += count;
      }
      std::shuffle(parts.begin(), parts.end(), gen);
      if (!parts.empty()) batched.step(parts);
      more = false;
      for (int s = 0; s < 6; ++s) more |= done[s] < sequences[s].length;
    }
    for (int s = 0; s < 6; ++s)
      ASSERT_EQ(std::memcmp(alone.out[s].data(), batched.out[s].data(), alone.out[s].size() * sizeof(float)),
                0)
          << s;
  });
}

}  // namespace
}  // namespace octavo
