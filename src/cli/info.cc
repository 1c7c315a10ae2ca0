// octavo info [MODEL]: what this machine offers and which kernels serve it; a model's config and memory plan.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <set>

#include "base/cpu.h"
#include "base/topology.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "frontend/load_engine.h"
#include "load/checkpoint.h"

namespace octavo {
namespace {

constexpr const char* kWeightFormats[] = {
    "F32",    "BF16",   "W8A8",   "W4A8",   "Q8A8",    "Q4A8",  "Q4_1A8", "Q5_0A8", "Q5_1A8", "Q2_KA8",
    "Q3_KA8", "Q4_KA8", "Q5_KA8", "Q6_KA8", "MXFP4A8", "W4A16", "W8A16",  "FP8",    "MXFP4",  "Q8_0",
    "Q4_0",   "Q4_1",   "Q5_0",   "Q5_1",   "Q2_K",    "Q3_K",  "Q4_K",   "Q5_K",   "Q6_K",   "IQ4_NL"};
constexpr const char* kKvFormats[] = {"F32", "BF16", "FP8", "INT8"};
static_assert(std::size(kWeightFormats) == kernels::kNumWeightFormats &&
              std::size(kKvFormats) == kernels::kNumKvFormats);

double gib(double bytes) { return bytes / (1 << 30); }

void print_machine(const EngineOptions& options) {
  Machine machine = read_machine();
  std::set<int> cores, nodes;
  for (const Cpu& cpu : machine.cpus) cores.insert(cpu.core), nodes.insert(cpu.node);
  MemoryLimits memory = available_memory();
  printf("octavo %s\n", kVersion);
  printf("CPU features:  %s\n", cpu_features().text().c_str());
  printf("CPUs:          %zu usable, %zu cores, %zu NUMA nodes\n", machine.cpus.size(), cores.size(),
         nodes.size());
  if (machine.quota > 0) printf("CPU quota:     %.2f\n", machine.quota);
  printf("Memory:        %.2f GiB available of %.2f GiB (%s)\n", gib(static_cast<double>(memory.available)),
         gib(static_cast<double>(memory.total)), memory.text.c_str());
  printf("Threads:       %s\n", thread_binding(options).text.c_str());
}

void print_kernels() {
  const kernels::KernelTable& table = kernels::select();
  printf("Kernel level:  %s (available:", table.isa);
  for (const char* const* level = kernels::available(); *level; ++level) printf(" %s", *level);
  printf("; OCTAVO_ISA caps it)\n");
  for (int i = 0; i < kernels::kNumWeightFormats; ++i)
    if (table.linear[i].run) printf("  linear %-7s %s\n", kWeightFormats[i], table.linear[i].name);
  for (int i = 0; i < kernels::kNumBlockFormats; ++i)
    if (table.bf16_blocks[i].run != table.linear[kernels::kFirstBlockFormat + i].run)
      printf("  linear %-7s %s (not with --dtype float32)\n", kWeightFormats[kernels::kFirstBlockFormat + i],
             table.bf16_blocks[i].name);
  for (int i = 0; i < kernels::kNumKvFormats; ++i)
    if (table.attention[i].attend) printf("  attention %-4s %s\n", kKvFormats[i], table.attention[i].name);
}

void print_model(const EngineOptions& options) {
  std::string path = resolve_model_path(options);
  ModelConfig config = load_model_config(path);
  printf("\nModel:         %s\n", path.c_str());
  printf("Architecture:  %s, %lld layers, hidden %lld, %lld heads (%lld KV) of %lld, vocabulary %lld\n",
         config.architecture.c_str(), static_cast<long long>(config.layers),
         static_cast<long long>(config.hidden), static_cast<long long>(config.heads),
         static_cast<long long>(config.kv_heads), static_cast<long long>(config.head_dim),
         static_cast<long long>(config.vocab));
  printf("Context:       %lld\n", static_cast<long long>(config.max_model_len));
  Checkpoint checkpoint = open_checkpoint(path);
  std::map<std::string, int64_t> elements;
  int64_t total = 0;
  double weight_bytes = 0;  // plain weights as --dtype asks, quantised ones as stored
  const int plain_bytes = options.dtype.starts_with("float32") ? 4 : 2;
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& tensor = *checkpoint.find(name);
    elements[std::string(octavo::name(tensor.dtype))] += tensor.shape.elements();
    total += tensor.shape.elements();
    const DTypeInfo& type = info(tensor.dtype);
    const bool plain =
        tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
    weight_bytes += static_cast<double>(tensor.shape.elements()) *
                    (plain ? plain_bytes : static_cast<double>(type.block_bytes) / type.block_elements);
  }
  printf("Weights:       %.1f M parameters:", static_cast<double>(total) / 1e6);
  for (const auto& [dtype, count] : elements)
    printf(" %s %.1f M", dtype.c_str(), static_cast<double>(count) / 1e6);
  int kv_bytes = options.kv_cache_dtype == "float32" || options.dtype.starts_with("float32") ? 4 : 2;
  double per_token = 2.0 * static_cast<double>(config.layers * config.kv_heads * config.head_dim) * kv_bytes;
  double room =
      gib(static_cast<double>(available_memory().available)) * options.memory_fraction - gib(weight_bytes);
  printf("\nMemory plan:   weights %.2f GiB; KV cache %.1f KiB a token, so %.2f GiB hold %.0f tokens\n",
         gib(weight_bytes), per_token / 1024, std::max(room, 0.0),
         std::max(room, 0.0) * (1 << 30) / per_token);
}

}  // namespace

Command info_command() {
  return {"info", "This machine's ISA, topology and kernels; a model's memory plan", [](CLI::App& app) {
            auto options = std::make_shared<EngineOptions>();
            add_engine_flags(app, *options);
            return [=] {
              apply_environment(*options);
              print_machine(*options);
              print_kernels();
              if (!options->model.empty()) print_model(*options);
              return 0;
            };
          }};
}

}  // namespace octavo
