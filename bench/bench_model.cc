// Whole forwards of a model with dummy weights, as fractions of this machine's limits:
//   bench_model [--model FOLDER_OR_GGUF] [--isa avx2] [--dtype bfloat16|float32] [--workers N] [--seconds 2]
//               [--case load|decode1|decode16|prefill512] [--quantization int8|int4|fp8|mxfp4]
//               [--int4-activations int8]
// Without --model: a Llama of 1.1 G parameters from its config alone. With it the real weights are loaded
// (and the time that takes is printed); --dummy true keeps only its config.
#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/probes.h"
#include "model/testing.h"

namespace octavo::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string model, isa, dtype = "bfloat16", only, quantization;
  int workers = 0;
  double seconds = 2;
  bool dummy = false, int8_activations = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--model")
      o.model = value;
    else if (flag == "--isa")
      o.isa = value;
    else if (flag == "--dtype")
      o.dtype = value;
    else if (flag == "--quantization")
      o.quantization = value;
    else if (flag == "--int4-activations")
      o.int8_activations = value == "int8";
    else if (flag == "--case")
      o.only = value;
    else if (flag == "--workers")
      o.workers = std::stoi(value);
    else if (flag == "--seconds")
      o.seconds = std::stod(value);
    else if (flag == "--dummy")
      o.dummy = value == "true";
    else
      throw Error("unknown flag ", flag);
  }
  return o;
}

nlohmann::json llama_1g() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 2048},
          {"num_hidden_layers", 16},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"intermediate_size", 8192},
          {"vocab_size", 49152},
          {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"}};
}

/// CPU seconds of this process so far: with one worker what a busy machine leaves comparable.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Case {
  const char* name;
  int sequences, tokens, context;  ///< tokens computed a sequence, after context tokens
};
constexpr Case kCases[] = {{"decode1", 1, 1, 128}, {"decode16", 16, 1, 128}, {"prefill512", 1, 512, 0}};

/// Multiply-adds of the matrices, twice; without attention.
double linear_flops(const ModelConfig& c, int64_t rows, int64_t logit_rows) {
  const double attention = c.hidden * c.head_dim * (2.0 * c.heads + 2 * c.kv_heads),
               mlp = 3.0 * c.hidden * c.intermediate;
  return 2 * (rows * (c.layers * attention + (c.layers - 1) * mlp) +
              logit_rows * (mlp + static_cast<double>(c.hidden) * c.vocab));
}

/// Those of attention: scores and values of every key that a token sees, in all layers but the last, which
/// only the last token passes.
double attention_flops(const ModelConfig& c, const Case& work) {
  const double keys = work.tokens * (work.context + (work.tokens + 1) / 2.0);
  return 4.0 * work.sequences * keys * static_cast<double>(c.heads) * c.head_dim * (c.layers - 1);
}

struct Limits {
  double bytes_per_second, flops_per_second, attention_flops_per_second;
};

void run(const Case& c, const Options& options, const ModelConfig& config, Model& model, OpContext& ctx,
         Limits limits) {
  const auto kv = options.dtype == "float32" ? kernels::KvFormat::kF32 : kernels::KvFormat::kBF16;
  TestRunner runner(model, ctx, kv, 16, c.sequences * ((c.context + c.tokens) / 16 + 2), 1);
  std::vector<TestSequence> sequences(c.sequences);
  std::vector<TestRunner::Work> context, work;
  for (TestSequence& s : sequences) {
    for (int i = 0; i < c.context + c.tokens; ++i) s.ids.push_back((i * 7919 + 13) % config.vocab);
    if (c.context) context.push_back({&s, c.context, TestRunner::Work::kLast});
    work.push_back({&s, c.tokens, TestRunner::Work::kLast});
  }
  if (c.context) runner.step(context);
  std::vector<float> logits = runner.step(work);
  std::vector<double> times;
  const double cpu_start = cpu_seconds();
  for (auto start = Clock::now(); times.size() < 3 || seconds_since(start) < options.seconds;) {
    const auto begin = Clock::now();
    runner.repeat(logits.data());
    times.push_back(seconds_since(begin));
  }
  const double cpu = (cpu_seconds() - cpu_start) / static_cast<double>(times.size());
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  const double bytes = model.info().weight_bytes,
               flops = linear_flops(config, c.sequences * c.tokens, c.sequences);
  const double least =
      flops / limits.flops_per_second + attention_flops(config, c) / limits.attention_flops_per_second;
  nlohmann::json line = {{"bench", "model"},
                         {"case", c.name},
                         {"isa", ctx.kernels.isa},
                         {"dtype", options.dtype},
                         {"quantization", options.quantization},
                         {"workers", ctx.team.size()},
                         {"steps", times.size()},
                         {"ms", median * 1e3},
                         {"ms_best", times[0] * 1e3},
                         {"cpu_ms", cpu * 1e3},
                         {"tokens_per_s", c.sequences * c.tokens / median},
                         {"weight_GB_per_s", bytes / median / 1e9},
                         {"GFLOP_per_s", flops / median / 1e9},
                         {"of_bandwidth", bytes / median / limits.bytes_per_second},
                         {"of_flops", flops / median / limits.flops_per_second},
                         {"of_flops_with_attention", least / median},
                         {"workspace_MB", ctx.workspace.peak() / 1e6}};
  std::cout << line << std::endl;
}

/// Name of the first linear's kernel: that of the layers.
std::string main_kernel(const ModelInfo& info) {
  const std::string& text = info.kernels.at(0);
  return text.substr(text.find(": ") + 2);
}

int main_checked(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int workers =
      options.workers ? options.workers : static_cast<int>(std::thread::hardware_concurrency());
  std::vector<int> cpus(workers);
  std::iota(cpus.begin(), cpus.end(), 0);
  TestMachine machine(options.isa.empty() ? kernels::select() : kernels::select(options.isa.c_str()), cpus,
                      true);
  machine.team.bind_caller();
  const auto dtype = options.dtype == "float32" ? kernels::WeightFormat::kF32 : kernels::WeightFormat::kBF16;
  const auto start = Clock::now();
  const ModelConfig config =
      options.model.empty() ? parse_config(llama_1g(), "llama of 1.1 G") : load_model_config(options.model);
  const bool dummy = options.dummy || options.model.empty();
  auto model =
      load_model(config, dummy ? dummy_checkpoint(config) : open_checkpoint(options.model), machine.ctx,
                 {.dtype = dtype,
                  .quantisation = online_quantisation(options.quantization, {}, config),
                  .int8_blocks = true,
                  .int8_activations = options.int8_activations});
  std::cout << nlohmann::json{{"bench", "model"},
                              {"case", "load"},
                              {"seconds", seconds_since(start)},
                              {"cpu_seconds", cpu_seconds()},
                              {"weight_bytes", model->info().weight_bytes},
                              {"kernels", model->info().kernels}}
            << std::endl;
  if (options.only == "load") return 0;
  const std::vector<Flops> peaks = peak_flops(machine.team);
  const Limits limits{read_bandwidth(machine.team).bytes_per_second,
                      peak_of_kernel(peaks, main_kernel(model->info())),
                      peak_of_kernel(peaks, std::string("bf16 ") + machine.ctx.kernels.isa)};
  std::cout << nlohmann::json{{"bench", "model"},
                              {"case", "limits"},
                              {"GB_per_s", limits.bytes_per_second / 1e9},
                              {"GFLOP_per_s", limits.flops_per_second / 1e9}}
            << std::endl;
  for (const Case& c : kCases)
    if (options.only.empty() || options.only == c.name) run(c, options, config, *model, machine.ctx, limits);
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  try {
    return octavo::bench::main_checked(argc, argv);
  } catch (const octavo::Error& e) {
    std::cerr << "bench_model: " << e.what() << "\n";
    return 1;
  }
}
