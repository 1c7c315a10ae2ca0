// Paged attention and the row-wise kernels as fractions of this machine's limits:
//   bench_attention [--isa avx2] [--format f32|bf16|fp8|int8] [--workers 2] [--only decode,prefill,rowwise]
// With one worker the clock is that thread's CPU time, which neighbours on a shared machine do not stretch.
// Decode cycles through as many layers as put the KV cache far out of every cache level; blocks of 16 tokens,
// shuffled.
#include <time.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/error.h"
#include "bench/probes.h"
#include "ops/attention.h"
#include "ops/linear.h"

namespace octavo::bench {
namespace {

double thread_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The fastest of `repeats` calls.
template <class F>
double fastest(const Team& team, int repeats, const F& f) {
  if (team.size() > 1) return best_of(repeats, f);
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = thread_seconds();
    f();
    best = std::min(best, thread_seconds() - start);
  }
  return best;
}

struct Options {
  std::string isa, format = "bf16", only = "decode,prefill,rowwise";
  int workers = 0;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--isa")
      o.isa = value;
    else if (flag == "--format")
      o.format = value;
    else if (flag == "--only")
      o.only = value;
    else if (flag == "--workers")
      o.workers = std::stoi(value);
    else
      throw Error("unknown flag ", flag);
  }
  return o;
}

kernels::KvFormat format_of(const std::string& name) {
  const char* const names[] = {"f32", "bf16", "fp8", "int8"};  // in the order of KvFormat
  for (int i = 0; i < 4; ++i)
    if (name == names[i]) return static_cast<kernels::KvFormat>(i);
  throw Error("--format: '", name, "', expected f32, bf16, fp8 or int8");
}

struct Shape {
  const char* name;
  int heads, kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{"llama 32/8x64", 32, 8, 64},
                             {"llama 32/8x128", 32, 8, 128},
                             {"smollm2 9/3x64", 9, 3, 64},
                             {"mha 12/12x64", 12, 12, 64}};
constexpr int kBlock = 16;

/// `layers` caches of `seqs` sequences of `context` tokens, all written.
class Bench {
 public:
  Bench(OpContext& ctx, kernels::KvFormat format, const Shape& s, int seqs, int context, int layers)
      : ctx_(ctx),
        shape_(s),
        seqs_(seqs),
        context_(context),
        blocks_per_seq_((context + kBlock - 1) / kBlock) {
    const auto& kernel = ctx.kernels.attention[static_cast<int>(format)];
    const int64_t head_bytes = static_cast<int64_t>(kernel.head_bytes(kBlock, s.head_dim));
    const int blocks = seqs * blocks_per_seq_;
    tables_.resize(blocks);
    std::iota(tables_.begin(), tables_.end(), 0);
    std::shuffle(tables_.begin(), tables_.end(), std::mt19937(1));
    std::vector<float> row(s.head_dim);
    for (int l = 0; l < layers; ++l) {
      memory_.emplace_back(static_cast<size_t>(head_bytes) * s.kv_heads * blocks);
      kv_.push_back({format, {memory_.back().data(), head_bytes, s.kv_heads, kBlock, s.head_dim}});
      for (int b = 0; b < blocks * s.kv_heads; ++b)
        for (int t = 0; t < kBlock; ++t) {
          for (float& x : row) x = 0.1f * static_cast<float>((b * 31 + t * 7 + (&x - row.data())) % 17 - 8);
          kernel.write(row.data(), row.data(), memory_.back().data() + b * head_bytes, t, kBlock, s.head_dim);
        }
    }
    q_.assign(static_cast<size_t>(seqs) * context * s.heads * s.head_dim, 0.25f);
    out_ = q_;
  }

  /// The last `tokens` tokens of every sequence against all of its keys.
  void run(int layer, int tokens) {
    std::vector<int32_t> positions, query_start{0}, context(seqs_, context_);
    for (int s = 0; s < seqs_; ++s) {
      for (int t = context_ - tokens; t < context_; ++t) positions.push_back(t);
      query_start.push_back(static_cast<int32_t>(positions.size()));
    }
    const KvGroupStep group{tables_.data(), blocks_per_seq_, nullptr};
    const StepInput step{seqs_ * tokens, nullptr, positions.data(), seqs_, query_start.data(), context.data(),
                         &group,         0,       nullptr};
    const AttentionShape shape{shape_.heads, shape_.kv_heads, shape_.head_dim, 0.125f, 0, 0, nullptr};
    const int64_t row = int64_t{shape_.heads} * shape_.head_dim;
    attention(ctx_, step, group, kv_[layer % kv_.size()], shape, q_.data(), row, out_.data(), row);
  }
  int layers() const { return static_cast<int>(kv_.size()); }

 private:
  OpContext& ctx_;
  Shape shape_;
  int seqs_, context_, blocks_per_seq_;
  std::vector<int32_t> tables_;
  std::vector<PackedBuffer> memory_;
  std::vector<LayerKv> kv_;
  std::vector<float> q_, out_;
};

void decode(OpContext& ctx, kernels::KvFormat format, double bandwidth) {
  const double element = format == kernels::KvFormat::kF32 ? 4 : format == kernels::KvFormat::kBF16 ? 2 : 1;
  for (const Shape& s : kShapes)
    for (auto [seqs, context] : {std::pair{1, 512}, {1, 4096}, {1, 16384}, {16, 512}}) {
      const double bytes = 2.0 * seqs * context * s.kv_heads * s.head_dim * element;
      const int layers = std::max(2, static_cast<int>(3e8 / bytes));
      Bench bench(ctx, format, s, seqs, context, layers);
      int layer = 0;  // the best single call: short enough to fit between a neighbour's time slices
      const double seconds = fastest(ctx.team, 7 * layers, [&] { bench.run(layer++, 1); });
      std::cout << nlohmann::json{{"bench", "attention decode"},
                                  {"isa", ctx.kernels.isa},
                                  {"shape", s.name},
                                  {"seqs", seqs},
                                  {"context", context},
                                  {"us", seconds * 1e6},
                                  {"GB/s", bytes / seconds * 1e-9},
                                  {"of_bandwidth", bytes / seconds / bandwidth}}
                << std::endl;
    }
}

void prefill(OpContext& ctx, kernels::KvFormat format, double peak) {
  for (const Shape& s : kShapes)
    for (int tokens : {512, 2048}) {
      Bench bench(ctx, format, s, 1, tokens, 1);
      const double flops = 2.0 * tokens * (tokens + 1) * s.heads * s.head_dim;
      const double seconds = fastest(ctx.team, 5, [&] { bench.run(0, tokens); });
      std::cout << nlohmann::json{{"bench", "attention prefill"},
                                  {"isa", ctx.kernels.isa},
                                  {"shape", s.name},
                                  {"tokens", tokens},
                                  {"ms", seconds * 1e3},
                                  {"GFLOP/s", flops / seconds * 1e-9},
                                  {"of_fma_peak", flops / seconds / peak}}
                << std::endl;
    }
}

void rowwise(OpContext& ctx) {
  const auto& e = ctx.kernels.elementwise;
  const auto& p = ctx.kernels.sampling;
  constexpr int64_t n = 2048, vocab = 151936;
  std::vector<float> x(vocab, 0.5f), y(vocab), w(n, 1.0f), b(n, 0.1f);
  std::vector<uint16_t> half(n);
  auto report = [&](const char* name, int64_t count, double bytes_per_element, auto f) {
    const int calls = count > n ? 20 : 400;
    volatile double sink = 0;
    const double seconds = fastest(ctx.team, 9,
                                   [&] {
                                     for (int i = 0; i < calls; ++i) sink = f();
                                   }) /
                           calls;
    std::cout << nlohmann::json{{"bench", name},
                                {"isa", ctx.kernels.isa},
                                {"n", count},
                                {"ns", seconds * 1e9},
                                {"ns_per_element", seconds * 1e9 / count},
                                {"GB/s", bytes_per_element * count / seconds * 1e-9}}
              << std::endl;
  };
  report("rms_norm", n, 12, [&] {
    e.rms_norm(x.data(), w.data(), 1e-5f, n, y.data());
    return 0.0;
  });
  report("add_rms_norm", n, 20, [&] {
    e.add_rms_norm(y.data(), x.data(), w.data(), 1e-5f, n, b.data());
    return 0.0;
  });
  report("layer_norm", n, 16, [&] {
    e.layer_norm(x.data(), w.data(), b.data(), 1e-5f, n, y.data());
    return 0.0;
  });
  report("rope", 64, 12, [&] {
    e.rope(y.data(), w.data(), b.data(), 64);
    return 0.0;
  });
  report("silu_mul", n, 12, [&] {
    e.silu_mul(x.data(), w.data(), n, y.data());
    return 0.0;
  });
  report("gelu_mul", n, 12, [&] {
    e.gelu_mul(x.data(), w.data(), n, y.data());
    return 0.0;
  });
  report("gelu_tanh_mul", n, 12, [&] {
    e.gelu_tanh_mul(x.data(), w.data(), n, y.data());
    return 0.0;
  });
  report("tanh", n, 8, [&] {
    e.tanh(y.data(), n);
    return 0.0;
  });
  report("exp", n, 8, [&] {
    std::copy_n(x.data(), n, y.data());
    e.exp(y.data(), n);
    return 0.0;
  });
  report("f32_to_bf16", n, 6, [&] {
    e.f32_to_bf16(x.data(), n, half.data());
    return 0.0;
  });
  report("bf16_to_f32", n, 6, [&] {
    e.bf16_to_f32(half.data(), n, y.data());
    return 0.0;
  });
  report("argmax", vocab, 4, [&] { return static_cast<double>(p.argmax(x.data(), vocab)); });
  report("max", vocab, 4, [&] { return p.max(x.data(), vocab); });
  report("sum_exp", vocab, 4, [&] { return p.sum_exp(x.data(), 1, vocab); });
  report("exp_sub", vocab, 8, [&] {
    p.exp_sub(x.data(), 1, vocab, y.data());
    return 0.0;
  });
  report("count_above", vocab, 4, [&] { return static_cast<double>(p.count_above(x.data(), 0.6f, vocab)); });
}

void run(const Options& o) {
  Team team = make_team(o.workers);
  team.bind_caller();
  Workspace workspace(size_t{256} << 20);
  const kernels::KernelTable& table = o.isa.empty() ? kernels::select() : kernels::select(o.isa.c_str());
  OpContext ctx{team, workspace, table};
  const auto format = format_of(o.format);
  auto wanted = [&](const char* part) { return o.only.find(part) != std::string::npos; };
  const double bandwidth = read_bandwidth(team).bytes_per_second;
  const double peak = fma_peak(peak_flops(team), table.isa);
  std::cout << nlohmann::json{{"bench", "limits"},
                              {"workers", team.size()},
                              {"read GB/s", bandwidth * 1e-9},
                              {"fma GFLOP/s", peak * 1e-9}}
            << std::endl;
  if (wanted("decode")) decode(ctx, format, bandwidth);
  if (wanted("prefill")) prefill(ctx, format, peak);
  if (wanted("rowwise")) rowwise(ctx);
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  try {
    octavo::bench::run(octavo::bench::parse(argc, argv));
  } catch (const octavo::Error& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
