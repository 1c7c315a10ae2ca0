#include "frontend/load_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "base/cpu.h"
#include "frontend/model_text.h"
#include "load/checkpoint.h"
#include "load/hub.h"
#include "load/json.h"
#include "model/registry.h"

namespace octavo {
namespace {

/// Activations of loading: packing needs no more than a few rows.
constexpr size_t kLoadWorkspace = 64 << 20;
constexpr double kMaxKvGib = 1 << 20;
constexpr double kMaxThreads = 4096;  ///< more in OMP_NUM_THREADS is a mistake

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

double number_of(const char* name, const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end || !(value >= 0 && value < 1e12))
    throw Error(name, "=", text, ": expected a non-negative number");
  return value;
}

kernels::WeightFormat weight_format(const EngineOptions& options) {
  const std::string& dtype = options.dtype;
  if (dtype == "auto" || dtype == "bfloat16") return kernels::WeightFormat::kBF16;
  if (dtype == "float32" || dtype == "float") return kernels::WeightFormat::kF32;
  if (dtype != "float16" && dtype != "half")
    throw Error("--dtype ", dtype, ": expected auto, bfloat16, float32, float16 or half");
  spdlog::warn("--dtype {}: float16 weights run as bfloat16 here", dtype);
  return kernels::WeightFormat::kBF16;
}

kernels::KvFormat kv_format(const EngineOptions& options) {
  const std::string& dtype = options.kv_cache_dtype;
  if (dtype == "bfloat16") return kernels::KvFormat::kBF16;
  if (dtype == "float32") return kernels::KvFormat::kF32;
  if (dtype == "fp8" || dtype == "fp8_e4m3") return kernels::KvFormat::kFP8;
  if (dtype == "int8") return kernels::KvFormat::kInt8;
  if (dtype != "auto")
    throw Error("--kv-cache-dtype ", dtype, ": expected auto, bfloat16, float32, fp8, fp8_e4m3 or int8");
  return weight_format(options) == kernels::WeightFormat::kF32 ? kernels::KvFormat::kF32
                                                               : kernels::KvFormat::kBF16;
}

int64_t checked_max_model_len(const EngineOptions& options, const ModelConfig& config) {
  int64_t wanted = options.max_model_len.value_or(0);
  if (options.max_model_len && wanted < 1 && wanted != -1)
    throw Error("--max-model-len ", wanted, ": expected at least 1, or auto");
  if (wanted > config.max_model_len && environment("VLLM_ALLOW_LONG_MAX_MODEL_LEN").value_or("0") != "1")
    throw Error("--max-model-len ", wanted, " is larger than the ", config.max_model_len, " of ",
                config.origin, "; VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 allows it, at the risk of nonsense beyond");
  return wanted;
}

EngineConfig engine_config(const EngineOptions& options, const ModelConfig& config) {
  EngineConfig out;
  out.max_model_len = checked_max_model_len(options, config);
  out.max_num_batched_tokens = options.max_num_batched_tokens;
  out.max_num_seqs = options.max_num_seqs;
  out.block_size = options.block_size;
  out.kv_memory_fraction = options.memory_fraction;
  if (options.kv_cache_memory_bytes) out.kv_cache_bytes = static_cast<size_t>(*options.kv_cache_memory_bytes);
  if (options.kv_cache_space && !(*options.kv_cache_space <= kMaxKvGib))
    throw Error("the KV cache size of ", *options.kv_cache_space, " GiB is not plausible");
  if (options.kv_cache_space && *options.kv_cache_space > 0)
    out.kv_cache_bytes = static_cast<size_t>(*options.kv_cache_space * (1ull << 30));
  out.kv_format = kv_format(options);
  out.num_blocks_override = options.num_blocks_override;
  out.enable_prefix_caching = options.enable_prefix_caching;
  out.long_prefill_token_threshold = options.long_prefill_token_threshold;
  if (options.scheduling_policy != "fcfs" && options.scheduling_policy != "priority")
    throw Error("--scheduling-policy ", options.scheduling_policy, ": expected fcfs or priority");
  out.policy = options.scheduling_policy == "fcfs" ? SchedulingPolicy::kFcfs : SchedulingPolicy::kPriority;
  out.max_num_queued_reqs = options.max_num_queued_reqs;
  out.max_num_queued_tokens = options.max_num_queued_tokens;
  out.seed = options.seed;
  return out;
}

Checkpoint open_weights(const EngineOptions& options, const std::string& path, const ModelConfig& config) {
  const std::string& format = options.load_format;
  if (format == "dummy") return dummy_checkpoint(config);
  if (format != "auto" && format != "safetensors" && format != "gguf" && format != "hf")
    throw Error("--load-format ", format, ": expected auto, safetensors, gguf or dummy");
  return open_checkpoint(path);
}

LogprobsMode logprobs_mode(const std::string& name) {
  if (name == "raw_logprobs") return LogprobsMode::kRawLogprobs;
  if (name == "processed_logprobs") return LogprobsMode::kProcessedLogprobs;
  if (name == "raw_logits") return LogprobsMode::kRawLogits;
  if (name == "processed_logits") return LogprobsMode::kProcessedLogits;
  throw Error("--logprobs-mode ", name,
              ": expected raw_logprobs, processed_logprobs, raw_logits or processed_logits");
}

std::string gib(double bytes) {
  char out[32];
  snprintf(out, sizeof out, "%.2f GiB", bytes / (1 << 30));
  return out;
}

/// Lines of ModelInfo::kernels ("qkv_proj x16: bf16 avx2") with the roles of one kernel on one line.
std::vector<std::string> by_kernel(const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, std::string>> rows;  // kernel, its roles
  for (const std::string& line : lines) {
    const size_t cut = line.find(": ");
    const std::string kernel = line.substr(cut + 2), role = line.substr(0, cut);
    auto row = std::ranges::find(rows, kernel, &std::pair<std::string, std::string>::first);
    if (row == rows.end())
      rows.emplace_back(kernel, role);
    else
      row->second += ", " + role;
  }
  std::vector<std::string> out;
  out.reserve(rows.size());
  for (const auto& [kernel, roles] : rows) out.push_back(str(kernel, ": ", roles));
  return out;
}

void log_engine(const LoadedModel& loaded, const Binding& binding, const EngineOptions& options) {
  const ModelInfo& info = loaded.engine->model_info();
  EngineStats stats = loaded.engine->stats();
  spdlog::info("Model {}: {}, {} layers, hidden {}, vocabulary {}; weights {}", loaded.path,
               info.architecture, info.layers, info.hidden, info.vocab,
               gib(static_cast<double>(info.weight_bytes)));
  spdlog::info("Kernels: {} (CPU: {})", kernels::select().isa, cpu_features().text());
  for (const std::string& line : by_kernel(info.kernels)) spdlog::info("  {}", line);
  spdlog::info("Threads: {}", binding.text);
  spdlog::info(
      "KV cache: {} tokens in {} blocks of {} ({}); max_model_len {}, max_num_seqs {}, "
      "max_num_batched_tokens {}",
      stats.kv_cache_tokens, stats.num_blocks, stats.block_size, options.kv_cache_dtype, stats.max_model_len,
      loaded.engine->config().max_num_seqs, loaded.engine->config().max_num_batched_tokens);
  if (!info.ignored_tensors.empty())
    spdlog::warn("{} tensors of the checkpoint are not used, {} the first", info.ignored_tensors.size(),
                 info.ignored_tensors[0]);
}

}  // namespace

LoadedModel::~LoadedModel() {
  if (engine) engine->stop();
}

void apply_environment(EngineOptions& options) {
  if (auto value = environment("VLLM_CPU_OMP_THREADS_BIND"); value && options.cpu_threads_bind == "auto")
    options.cpu_threads_bind = *value;
  if (auto value = environment("VLLM_CPU_KVCACHE_SPACE"); value && !options.kv_cache_space)
    options.kv_cache_space = number_of("VLLM_CPU_KVCACHE_SPACE", *value);
  if (auto value = environment("VLLM_CPU_NUM_OF_RESERVED_CPU"); value && !options.num_reserved_cpu)
    options.num_reserved_cpu =
        static_cast<int>(std::min(kMaxThreads, number_of("VLLM_CPU_NUM_OF_RESERVED_CPU", *value)));
}

std::string resolve_model_path(const EngineOptions& options) {
  HubOptions hub = hub_options_from_environment();
  hub.revision = options.revision;
  return resolve_model(options.model, hub);
}

Binding thread_binding(const EngineOptions& options) {
  BindingRequest request;
  request.spec = options.cpu_threads_bind;
  request.reserved = options.num_reserved_cpu;
  if (auto threads = environment("OMP_NUM_THREADS"))
    request.threads = static_cast<int>(std::min(kMaxThreads, number_of("OMP_NUM_THREADS", *threads)));
  return parse_thread_binding(request, read_machine());
}

FrontendOptions frontend_options(const EngineOptions& options, const ModelConfig& config, const Text& text) {
  FrontendOptions out;
  ModelConfig source = config;
  if (options.generation_config == "vllm") {
    source.generation = {};
  } else if (options.generation_config != "auto") {
    std::string file = options.generation_config + "/generation_config.json";
    source.generation = {};
    parse_generation_config(read_json(file), file, source);
  }
  GenerationDefaults& defaults = source.generation;
  JsonFields given(options.override_generation_config, "--override-generation-config");
  auto override_number = [&](const char* key, std::optional<double>& value) {
    if (given.find({key})) value = given.number({key}, 0, -1e30, 1e30);
  };
  override_number("temperature", defaults.temperature);
  override_number("top_p", defaults.top_p);
  override_number("min_p", defaults.min_p);
  override_number("repetition_penalty", defaults.repetition_penalty);
  if (given.find({"top_k"})) defaults.top_k = given.integer({"top_k"}, 0, -1, INT32_MAX);
  if (given.find({"max_new_tokens"}))
    defaults.max_new_tokens = given.integer({"max_new_tokens"}, 0, 1, INT32_MAX);
  out.defaults = {defaults.temperature,        defaults.top_p, defaults.min_p,
                  defaults.repetition_penalty, defaults.top_k, defaults.max_new_tokens};
  out.eos_ids = stop_ids(config);  // of all sources, also under --generation-config vllm
  if (auto id = text.id_of(config.tokenizer_eos_token);
      id && std::ranges::find(out.eos_ids, *id) == out.eos_ids.end())
    out.eos_ids.push_back(*id);
  out.max_logprobs = options.max_logprobs;
  out.logprobs_mode = logprobs_mode(options.logprobs_mode);
  return out;
}

std::unique_ptr<LoadedModel> load_engine(const EngineOptions& options) {
  double start = steady_seconds();
  auto out = std::make_unique<LoadedModel>();
  out->path = resolve_model_path(options);
  out->config = load_model_config(out->path);
  if (options.decode_weights && !options.quantization.empty())
    throw Error("--decode-weights and --quantization contradict each other");
  EngineConfig config = engine_config(options, out->config);
  Binding binding = thread_binding(options);
  out->team = std::make_unique<Team>(TeamOptions{binding.ranks[0], binding.pin});
  out->text = load_text(out->path, out->config, options);
  Workspace workspace(kLoadWorkspace);
  OpContext context{*out->team, workspace, kernels::select()};
  LoadOptions load{
      .dtype = weight_format(options),
      .quantisation = online_quantisation(options.quantization, options.quantization_config, out->config),
      .decode_weights = options.decode_weights,
      .int8_blocks = options.gguf_activations == "int8",
      .int8_activations = options.int4_activations == "int8",
      .max_model_len = std::max<int64_t>(config.max_model_len, 0)};
  auto model = load_model(out->config, open_weights(options, out->path, out->config), context, load);
  out->engine = std::make_unique<Engine>(std::move(model), config, *out->team, kernels::select());
  out->frontend = std::make_unique<Frontend>(*out->engine, *out->text,
                                             frontend_options(options, out->config, *out->text));
  log_engine(*out, binding, options);
  out->engine->start();
  spdlog::info("Engine ready in {:.2f} s", steady_seconds() - start);
  return out;
}

}  // namespace octavo
