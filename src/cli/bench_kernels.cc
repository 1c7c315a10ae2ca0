// octavo bench kernels: each linear format of the chosen level on a Llama-sized layer, one row (bandwidth)
// and many (FLOPS).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/statistics.h"
#include "frontend/load_engine.h"
#include "ops/linear.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

struct KernelBenchOptions {
  EngineOptions engine;  // threads only
  int64_t n = 8192, k = 2048;
  std::vector<int64_t> rows = {1, 16, 256};
  double seconds = 0.5;
  std::string isa, kernel, output_json;
};

/// Rows in the form that a format packs from, made in the packer's scratch [rows * k floats]: integers,
/// blocks (at most 2 bytes for a weight) and scales one after the other. Bytes of blocks keep to 0..63: no
/// float16 among them is infinite or not a number.
void bench_rows(kernels::WeightFormat format, int64_t rows, int64_t k, float* scratch,
                kernels::WeightRows& out) {
  const int64_t count = rows * k;
  if (format == kernels::WeightFormat::kF32 || format == kernels::WeightFormat::kBF16) {
    for (int64_t i = 0; i < count; ++i) scratch[i] = 0.001f * static_cast<float>(i % 255 - 127);
    out.values = scratch;
    return;
  }
  auto* bytes = reinterpret_cast<int8_t*>(scratch);
  for (int64_t i = 0; i < count; ++i) bytes[i] = static_cast<int8_t>(i * 37 % 15 - 7);
  for (int64_t i = count; i < 3 * count; ++i) bytes[i] = static_cast<int8_t>(i * 2654435761 >> 20 & 63);
  float* scales = scratch + 3 * count / 4;
  std::fill_n(scales, count / 32 + rows, 0.0078125f);
  out.q = bytes;
  out.scales = scales;
  out.blocks = reinterpret_cast<std::byte*>(bytes + count);
  out.block_row_bytes = 2 * k;
}

/// Inputs that share a scale, as most checkpoints have it.
int64_t bench_group(kernels::WeightFormat format, int64_t k) {
  using F = kernels::WeightFormat;
  if (format == F::kMXFP4 || format == F::kW4A8 || format == F::kQ8A8 || format == F::kQ4A8) return 32;
  return format == F::kW4A16 || format == F::kW8A16 || format == F::kFP8 ? 128 : k;
}

Json measure(const KernelBenchOptions& o, OpContext& context, const Linear& layer, int64_t m) {
  std::vector<float> x(m * o.k, 0.5f), y(m * o.n);
  std::vector<double> times;
  for (double end = steady_seconds() + o.seconds; times.size() < 3 || steady_seconds() < end;) {
    double start = steady_seconds();
    linear(context, layer, x.data(), o.k, m, y.data(), o.n);
    times.push_back(steady_seconds() - start);
  }
  double time = percentile(times, 50);
  return {{"kernel", layer.segments[0].kernel->name},
          {"m", m},
          {"n", o.n},
          {"k", o.k},
          {"workers", context.team.size()},
          {"us", 1e6 * time},
          {"weight_GB_per_s", static_cast<double>(layer.bytes()) / time / 1e9},
          {"GFLOP_per_s", 2.0 * static_cast<double>(m * o.n * o.k) / time / 1e9}};
}

int bench(KernelBenchOptions& o) {
  if (o.n < 16 || o.k < 16 || o.n > (1 << 20) || o.k > (1 << 20))
    throw Error("--n and --k must be 16 to 1048576");
  apply_environment(o.engine);
  Binding binding = thread_binding(o.engine);
  Team team({binding.ranks[0], binding.pin});
  team.bind_caller();
  Workspace workspace(512 << 20);
  OpContext context{team, workspace, o.isa.empty() ? kernels::select() : kernels::select(o.isa.c_str())};
  Json results = Json::array();
  printf("%-28s %6s %12s %12s %12s\n", "kernel", "rows", "us", "weight GB/s", "GFLOP/s");
  // All kernels, and those that the block formats have with BF16 products.
  for (int entry = 0; entry < kernels::kNumWeightFormats + kernels::kNumBlockFormats; ++entry) {
    const bool bf16 = entry >= kernels::kNumWeightFormats;
    const int block = entry - kernels::kNumWeightFormats,
              i = bf16 ? kernels::kFirstBlockFormat + block : entry;
    const kernels::LinearKernel& plain = context.kernels.linear[i];
    const kernels::LinearKernel& kernel = bf16 ? context.kernels.bf16_blocks[block] : plain;
    if (bf16 && kernel.run == plain.run) continue;
    if (!kernel.run || std::string(kernel.name).find(o.kernel) == std::string::npos) continue;
    if (i > static_cast<int>(kernels::WeightFormat::kBF16) && o.k % 256) continue;
    const auto format = static_cast<kernels::WeightFormat>(i);
    LinearPart part{
        .format = format,
        .shape = {o.n, o.k, bench_group(format, o.k)},
        .rows = [&](int64_t n0, int64_t n1, float* scratch,
                    kernels::WeightRows& rows) { bench_rows(format, n1 - n0, o.k, scratch, rows); },
        .bias = {},
        .bf16_products = bf16};
    Linear layer = Linear::build(context, {part});
    for (int64_t m : o.rows) {
      Json result = measure(o, context, layer, m);
      printf("%-28s %6lld %12.1f %12.1f %12.1f\n", layer.segments[0].kernel->name, static_cast<long long>(m),
             result["us"].get<double>(), result["weight_GB_per_s"].get<double>(),
             result["GFLOP_per_s"].get<double>());
      results.push_back(std::move(result));
    }
  }
  if (!o.output_json.empty()) write_file(o.output_json, results.dump(2));
  return 0;
}

}  // namespace

Command bench_kernels_command() {
  return {
      "bench kernels", "The linear kernels of this machine", [](CLI::App& app) {
        auto o = std::make_shared<KernelBenchOptions>();
        const char* group = "Benchmark";
        app.add_option("--n", o->n, "Outputs of the layer")->group(group)->capture_default_str();
        app.add_option("--k", o->k, "Inputs of the layer")->group(group)->capture_default_str();
        app.add_option("--rows", o->rows, "Batch sizes")
            ->group(group)
            ->expected(1, -1)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
            ->trigger_on_parse();
        app.add_option("--seconds", o->seconds, "For each measurement")->group(group)->capture_default_str();
        app.add_option("--isa", o->isa, "Cap the level: scalar, avx2, ...")->group(group);
        app.add_option("--kernel", o->kernel, "Only kernels whose name has this: q4, w8a8, ...")
            ->group(group);
        app.add_option("--output-json", o->output_json, "Result file")->group(group);
        app.add_option("--cpu-threads-bind", o->engine.cpu_threads_bind, "auto, nobind, or CPUs")
            ->group("Threads")
            ->capture_default_str();
        return [=] { return bench(*o); };
      }};
}

}  // namespace octavo
