// The linear layers of a Llama of 1.1 G parameters as fractions of this machine's limits, per level and
// format:
//   bench_linear [--isa avx2] [--format bf16] [--group 32] [--layers 16] [--rows 1,16,512]
//                [--repeats 20] [--cached 512x2048]
// A pass runs qkv, o, gate-up and down of every layer and the head: weights come from memory, not from a
// cache. With --cached NxK one core runs one layer of that size from its caches, 64 columns at a time, and
// the best of each such piece counts: a figure that a busy machine gives too.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/dtype.h"
#include "base/error.h"
#include "bench/probes.h"
#include "ops/linear.h"

namespace octavo::bench {
namespace {

struct Options {
  std::string isa, format = "bf16";
  int layers = 16, workers = 0, repeats = 20;
  int64_t group = 32;                  ///< of w4a8 and w4a16
  int64_t cached_n = 0, cached_k = 0;  ///< 0: the whole model
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
    else if (flag == "--group")
      o.group = std::stoll(value);
    else if (flag == "--cached") {
      o.cached_n = std::stoll(value);
      o.cached_k = std::stoll(value.substr(value.find('x') + 1));
    } else if (flag == "--layers")
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

/// How weights of a format are made up: floats, integers of `bits` with a scale for every `group` inputs (0:
/// for a row), or GGUF's `blocks`.
struct Format {
  const char* name;
  kernels::WeightFormat format;
  int bits = 0;
  int64_t group = 0;
  DType blocks = DType::kF32;
  bool zeros = false;
};
using kernels::WeightFormat;
constexpr Format kFormats[] = {
    {"f32", WeightFormat::kF32},
    {"bf16", WeightFormat::kBF16},
    {"w8a8", WeightFormat::kW8A8, 8},
    {"w4a8", WeightFormat::kW4A8, 4, 32},
    {"q8a8", WeightFormat::kQ8A8, 8, 32},
    {"q4a8", WeightFormat::kQ4A8, 4, 32},
    {"w4a16", WeightFormat::kW4A16, 4, 32},
    {"w4a16_zeros", WeightFormat::kW4A16, 4, 32, DType::kF32, true},
    {"w8a16", WeightFormat::kW8A16, 8},
    {"fp8", WeightFormat::kFP8, 8},
    {"mxfp4a8", WeightFormat::kMXFP4A8, 0, 0, DType::kMXFP4},
    {"mxfp4", WeightFormat::kMXFP4, 0, 0, DType::kMXFP4},
    {"iq4_nl", WeightFormat::kIQ4_NL, 0, 0, DType::kIQ4_NL},
    {"q4_k", WeightFormat::kQ4_KA8, 0, 0, DType::kQ4_K},
    {"q6_k", WeightFormat::kQ6_KA8, 0, 0, DType::kQ6_K},
};

const Format& format_of(const std::string& name) {
  std::string known;
  for (const Format& format : kFormats) {
    if (name == format.name) return format;
    known += (known.empty() ? "" : ", ") + std::string(format.name);
  }
  throw Error("--format: ", name, ", expected one of ", known);
}

void random_rows(const Format& format, const kernels::LinearShape& shape, int64_t n0, int64_t n1,
                 float* scratch, kernels::WeightRows& rows) {
  uint32_t state = static_cast<uint32_t>(n0 * 2654435761u + 1);
  const int64_t count = (n1 - n0) * shape.k;
  auto next = [&] { return static_cast<int32_t>(state = state * 1664525u + 1013904223u); };
  if (format.blocks != DType::kF32) {  // one byte throughout: its float16s are normal numbers
    rows.block_row_bytes = shape.k / info(format.blocks).block_elements * info(format.blocks).block_bytes;
    rows.blocks = reinterpret_cast<std::byte*>(scratch);
    std::memset(scratch, 0x33, (n1 - n0) * rows.block_row_bytes);
    return;
  }
  if (format.bits == 0) {
    for (int64_t i = 0; i < count; ++i) scratch[i] = static_cast<float>(next()) * 0x1p-36f;
    rows.values = scratch;
    return;
  }
  int8_t* q = reinterpret_cast<int8_t*>(scratch);
  for (int64_t i = 0; i < count; ++i) q[i] = static_cast<int8_t>(next() >> (32 - format.bits));
  if (format.format == WeightFormat::kFP8)  // none of them subnormal: in a real matrix one in 10^4 is
    for (int64_t i = 0; i < count; ++i) q[i] |= 0x20;
  float* scales = scratch + count / 4 + 1;
  std::fill(scales, scales + (n1 - n0) * (shape.k / shape.group), 0x1p-9f);
  rows.q = q;
  rows.scales = scales;
  if (format.zeros) rows.zeros = q;
}

Linear random_linear(OpContext& ctx, const Options& o, int64_t n, int64_t k) {
  const Format& format = format_of(o.format);
  LinearPart part;
  part.format = format.format;
  const int64_t group = format.bits == 4 && format.name[0] == 'w' ? o.group : format.group;
  part.shape = {n, k, group ? group : k};
  part.shape.half_scales = true;
  part.shape.has_zeros = format.zeros;
  part.bf16_products = true;
  part.rows = [&format, shape = part.shape](int64_t n0, int64_t n1, float* scratch,
                                            kernels::WeightRows& rows) {
    random_rows(format, shape, n0, n1, scratch, rows);
  };
  return Linear::build(ctx, {part});
}

/// One kernel alone on this thread.
void run_cached(const Options& o) {
  Team team = make_team(1);
  team.bind_caller();
  Workspace workspace(size_t{64} << 20);
  const kernels::KernelTable& table = o.isa.empty() ? kernels::select() : kernels::select(o.isa.c_str());
  OpContext ctx{team, workspace, table};
  const std::vector<Flops> peaks = peak_flops(team);
  const int64_t n = o.cached_n, k = o.cached_k;
  const Linear layer = random_linear(ctx, o, n, k);
  const LinearSegment& segment = layer.segments[0];
  const kernels::LinearKernel& kernel = *segment.kernel;
  for (int64_t m : o.rows) {
    std::vector<float> x(m * k, 0.5f), y(m * n);
    std::vector<std::byte> prepared(kernel.prepared_bytes(m, segment.shape) + 64);
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(prepared.data()) + 63) / 64 * 64);
    kernels::LinearRun run{segment.packed.data(), aligned, x.data(), k, y.data(), n, nullptr,
                           segment.shape,         m,       0,        0, 0,        m, false};
    const double prepare = best_of(o.repeats, [&] {
      if (kernel.prepare) kernel.prepare(x.data(), k, 0, m, m, segment.shape, aligned);
    });
    // Memory and kernel take turns, piece by piece: a neighbour slows both.
    const size_t pieces = (n + 63) / 64, piece_bytes = segment.packed.size() / pieces / 64 * 64;
    std::vector<double> best(pieces, 1e30), read(pieces, 1e30);
    for (int repeat = 0; repeat < o.repeats; ++repeat) {
      for (size_t piece = 0; piece < pieces; ++piece) {
        run.n0 = static_cast<int64_t>(piece) * 64;
        run.n1 = std::min(n, run.n0 + 64);
        best[piece] = std::min(best[piece], best_of(1, [&] { kernel.run(run); }));
      }
      for (size_t piece = 0; piece < pieces; ++piece)
        read[piece] = std::min(read[piece], best_of(1, [&] {
                                 volatile int64_t sink =
                                     read_bytes(segment.packed.data() + piece * piece_bytes, piece_bytes, 4);
                                 (void)sink;
                               }));
    }
    double seconds = 0, read_seconds = 0;
    for (double piece : best) seconds += piece;
    for (double piece : read) read_seconds += piece;
    const double flops = 2 * static_cast<double>(m * n * k) / seconds;
    nlohmann::ordered_json line{{"bench", "linear_cached"},
                                {"kernel", kernel.name},
                                {"rows", m},
                                {"us", seconds * 1e6},
                                {"prepare_us", prepare * 1e6},
                                {"GB/s", static_cast<double>(layer.bytes()) / seconds / 1e9},
                                {"of_read", read_seconds / seconds},
                                {"GFLOP/s", flops / 1e9},
                                {"of_fma_peak", flops / fma_peak(peaks, table.isa)},
                                {"of_kernel_peak", flops / peak_of_kernel(peaks, kernel.name)}};
    std::cout << line << std::endl;
  }
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
  const Bandwidth bandwidth = read_bandwidth(team);
  ReadBuffer buffer(team);
  const std::vector<Flops> peaks = peak_flops(team);

  Model model;
  const int64_t shapes[][2] = {
      {kQkv, kHidden}, {kHidden, kHidden}, {2 * kIntermediate, kHidden}, {kHidden, kIntermediate}};
  for (int l = 0; l < o.layers; ++l)
    for (auto [n, k] : shapes) model.layers.push_back(random_linear(ctx, o, n, k));
  model.head = random_linear(ctx, o, kVocab, kHidden);
  const std::string kernel = model.head.segments[0].kernel->name;
  const double peak = peak_of_kernel(peaks, kernel), fma = fma_peak(peaks, table.isa);
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
    double read = 0;
    for (int repeat = 0; repeat < (prefill ? o.repeats / 4 + 1 : o.repeats); ++repeat) {
      read = std::max(read, buffer.pass(bandwidth.streams));
      for (size_t i = 0; i < model.layers.size(); ++i) timed(i, model.layers[i], m);
      timed(model.layers.size(), model.head, prefill ? 1 : m);
    }
    double seconds = 0;
    for (double op : best) seconds += op;
    const double flops = 2 * m * (prefill ? layer_weights : weights) / seconds;
    if (m == 1) one_row = seconds;
    nlohmann::ordered_json line{{"bench", "linear"},
                                {"kernel", kernel},
                                {"workers", team.size()},
                                {"rows", m},
                                {"ms", seconds * 1e3},
                                {"tok/s", m / seconds},
                                {"GB/s", bytes / seconds / 1e9},
                                {"of_bandwidth", bytes / seconds / read},
                                {"GFLOP/s", flops / 1e9},
                                {"of_fma_peak", flops / fma}};
    if (peak > 0) line["of_kernel_peak"] = flops / peak;
    if (one_row > 0 && m > 1) line["speedup_over_one_row"] = m * one_row / seconds;
    std::cout << line << std::endl;
  }
  nlohmann::ordered_json limits{
      {"bench", "limits"}, {"GB/s", bandwidth.bytes_per_second / 1e9}, {"streams", bandwidth.streams}};
  for (const Flops& p : peaks) limits[p.isa + " " + p.format + " GFLOP/s"] = p.flops_per_second / 1e9;
  std::cout << limits << std::endl;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) try {
  const octavo::bench::Options options = octavo::bench::parse(argc, argv);
  if (options.cached_n)
    octavo::bench::run_cached(options);
  else
    octavo::bench::run(options);
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
