// The linear layers of a Llama of 1.1 G parameters as fractions of this machine's limits, per level and
// format:
//   bench_linear [--isa avx2] [--format bf16] [--layers 16] [--rows 1,16,512] [--repeats 20]
// A pass runs qkv, o, gate-up and down of every layer and the head: weights come from memory, not from a
// cache.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "bench/probes.h"
#include "ops/linear.h"

namespace octavo::bench {
namespace {

struct Options {
  std::string isa, format = "bf16";
  int layers = 16, workers = 0, repeats = 20;
  std::vector<int64_t> rows = {1, 4, 16, 64, 512};
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--isa")
      o.isa = value;
    else if (flag == "--format")
      o.format = value;
    else if (flag == "--layers")
      o.layers = std::stoi(value);
    else if (flag == "--repeats")
      o.repeats = std::stoi(value);
    else if (flag == "--workers")
      o.workers = std::stoi(value);
    else if (flag == "--rows") {
      o.rows.clear();
      for (size_t at = 0; at < value.size();
           at = value.find(',', at) == std::string::npos ? value.size() : value.find(',', at) + 1)
        o.rows.push_back(std::stoll(value.substr(at)));
    } else
      throw Error("unknown flag ", flag);
  }
  return o;
}

constexpr int64_t kHidden = 2048, kIntermediate = 8192, kVocab = 49152, kQkv = 3072;

Linear random_linear(OpContext& ctx, kernels::WeightFormat format, int64_t n, int64_t k) {
  LinearPart part{format,
                  {n, k, k},
                  [k](int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& rows) {
                    uint32_t state = static_cast<uint32_t>(n0 * 2654435761u + 1);
                    for (int64_t i = 0; i < (n1 - n0) * k; ++i) {
                      state = state * 1664525u + 1013904223u;
                      scratch[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-36f;
                    }
                    rows.values = scratch;
                  },
                  {}};
  return Linear::build(ctx, {part});
}

struct Model {
  std::vector<Linear> layers;  ///< qkv, o, gate_up, down of each
  Linear head;
};

void run(const Options& o) {
  Team team = make_team(o.workers);
  team.bind_caller();
  Workspace workspace(size_t{256} << 20);
  const kernels::KernelTable& table = o.isa.empty() ? kernels::select() : kernels::select(o.isa.c_str());
  OpContext ctx{team, workspace, table};
  const auto format = o.format == "f32" ? kernels::WeightFormat::kF32 : kernels::WeightFormat::kBF16;

  const Bandwidth bandwidth = read_bandwidth(team);
  // F32 FMA peak of the level (both levels of AVX-512 run F32 at the same rate).
  const std::string fma = std::strncmp(table.isa, "avx512", 6) == 0 ? "avx512" : "avx2";
  double peak = peak_flops_of(peak_flops(team), fma);

  Model model;
  const int64_t shapes[][2] = {
      {kQkv, kHidden}, {kHidden, kHidden}, {2 * kIntermediate, kHidden}, {kHidden, kIntermediate}};
  for (int l = 0; l < o.layers; ++l)
    for (auto [n, k] : shapes) model.layers.push_back(random_linear(ctx, format, n, k));
  model.head = random_linear(ctx, format, kVocab, kHidden);
  double bytes = 0, weights = 0;
  for (const Linear& w : model.layers) bytes += w.bytes(), weights += w.n * w.k;
  const double layer_weights = weights;
  bytes += model.head.bytes();
  weights += kVocab * kHidden;

  double one_row = 0;
  for (int64_t m : o.rows) {
    std::vector<float> x(m * kIntermediate, 0.5f), y(m * kVocab);
    const bool prefill = m > 64;  // a prefill computes the head for its last row only
    // Each op's best time over the passes, summed: a neighbour that takes the core spoils one op, not the
    // figure.
    std::vector<double> best(model.layers.size() + 1, 1e30);
    auto timed = [&](size_t i, const Linear& w, int64_t rows) {
      const double start = now();
      linear(ctx, w, x.data(), w.k, rows, y.data(), w.n);
      best[i] = std::min(best[i], now() - start);
    };
    for (int repeat = 0; repeat < (prefill ? o.repeats / 4 + 1 : o.repeats); ++repeat) {
      for (size_t i = 0; i < model.layers.size(); ++i) timed(i, model.layers[i], m);
      timed(model.layers.size(), model.head, prefill ? 1 : m);
    }
    double seconds = 0;
    for (double op : best) seconds += op;
    const double flops = 2 * m * (prefill ? layer_weights : weights) / seconds;
    if (m == 1) one_row = seconds;
    nlohmann::ordered_json line{{"bench", "linear"},
                                {"kernel", model.head.segments[0].kernel->name},
                                {"workers", team.size()},
                                {"rows", m},
                                {"ms", seconds * 1e3},
                                {"tok/s", m / seconds},
                                {"GB/s", bytes / seconds / 1e9},
                                {"of_bandwidth", bytes / seconds / bandwidth.bytes_per_second},
                                {"GFLOP/s", flops / 1e9},
                                {"of_fma_peak", flops / peak}};
    if (one_row > 0 && m > 1) line["speedup_over_one_row"] = m * one_row / seconds;
    std::cout << line << std::endl;
  }
  nlohmann::ordered_json limits{
      {"bench", "limits"}, {"GB/s", bandwidth.bytes_per_second / 1e9}, {"streams", bandwidth.streams}};
  for (const Flops& p : peak_flops(team)) limits[p.isa + " GFLOP/s"] = p.flops_per_second / 1e9;
  std::cout << limits << std::endl;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) try {
  octavo::bench::run(octavo::bench::parse(argc, argv));
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
