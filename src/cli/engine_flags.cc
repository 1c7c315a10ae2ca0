#include "cli/engine_flags.h"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "base/error.h"
#include "load/json.h"

namespace octavo {
namespace {

void add_count(CLI::App& app, const char* flag, int64_t& value, const char* help, const char* group) {
  app.add_option_function<std::string>(
         flag, [&value, flag](const std::string& text) { value = parse_count(text, flag); }, help)
      ->group(group)
      ->type_name("N[k|m|K|M]")
      ->default_str(std::to_string(value));
}

void add_model_flags(CLI::App& app, EngineOptions& o) {
  const char* group = "Model";
  app.add_option("model,--model", o.model, "Folder, *.gguf file, or hub id")->type_name("MODEL");
  app.add_option("--tokenizer", o.tokenizer, "Folder or tokenizer.json, if not the model's")->group(group);
  app.add_option("--revision", o.revision, "Hub revision")->group(group)->capture_default_str();
  app.add_option("--dtype", o.dtype, "auto, bfloat16 or float32 (float16 runs as bfloat16)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--load-format", o.load_format, "auto, safetensors, gguf, or dummy (random weights)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--quantization,-q", o.quantization,
                 "Quantise an unquantised checkpoint at load: int8 (W8A8), int4 (W4A8), fp8 or mxfp4")
      ->group(group);
  app.add_option_function<std::string>(
         "--quantization-config",
         [&o](const std::string& text) { o.quantization_config = parse_json(text, "--quantization-config"); },
         "Layers that --quantization leaves alone: {\"ignore\": [\"lm_head\"]} is the default")
      ->group(group)
      ->type_name("JSON");
  app.add_option("--gguf-activations", o.gguf_activations,
                 "With GGUF's blocks (but IQ4_NL): int8, with a scale for every 32 inputs, or float")
      ->group(group)
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  app.add_option("--int4-activations", o.int4_activations,
                 "With weights of 4 bits (W4A16): float, or int8 to run them as W4A8")
      ->group(group)
      ->check(CLI::IsMember({"float", "int8"}))
      ->capture_default_str();
  app.add_flag(
         "--decode-weights", o.decode_weights,
         "Decode quantised weights (GGUF blocks, AWQ, ...) to --dtype at load: more memory, slower decode")
      ->group(group);
  app.add_option_function<std::string>(
         "--max-model-len",
         [&o](const std::string& text) {
           o.max_model_len = text == "auto" ? -1 : parse_count(text, "--max-model-len");
         },
         "Context length; auto: the longest that the KV cache holds")
      ->group(group)
      ->type_name("N[k|K]|auto");
  app.add_option("--chat-template", o.chat_template, "File, or one line of Jinja")->group(group);
  app.add_option("--chat-template-content-format", o.chat_template_content_format, "auto, string or openai")
      ->group(group)
      ->capture_default_str();
  app.add_option("--generation-config", o.generation_config, "auto, vllm (ignore the model's), or a folder")
      ->group(group)
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--override-generation-config",
         [&o](const std::string& text) {
           o.override_generation_config = parse_json(text, "--override-generation-config");
         },
         "Sampling defaults as JSON, e.g. {\"temperature\": 0.5}")
      ->group(group)
      ->type_name("JSON");
  app.add_option("--max-logprobs", o.max_logprobs, "Most logprobs a request may ask for; -1: all")
      ->group(group)
      ->capture_default_str();
  app.add_option("--logprobs-mode", o.logprobs_mode,
                 "raw_logprobs, processed_logprobs, raw_logits or processed_logits")
      ->group(group)
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed of requests that have none")->group(group)->capture_default_str();
}

void add_cache_flags(CLI::App& app, EngineOptions& o) {
  const char* group = "KV cache";
  app.add_option("--block-size", o.block_size, "Tokens in a block")->group(group)->capture_default_str();
  app.add_option("--gpu-memory-utilization,--device-memory-utilization,--memory-utilization",
                 o.memory_fraction, "Share of the available memory for the KV cache")
      ->group(group)
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--kv-cache-memory-bytes",
         [&o](const std::string& text) {
           o.kv_cache_memory_bytes = parse_count(text, "--kv-cache-memory-bytes");
         },
         "Exact size of the KV cache")
      ->group(group)
      ->type_name("N[m|g|M|G]");
  app.add_option("--kvcache-space", o.kv_cache_space, "The same in GiB (VLLM_CPU_KVCACHE_SPACE)")
      ->group(group);
  app.add_option("--kv-cache-dtype", o.kv_cache_dtype, "auto, bfloat16, float32, fp8 (e4m3) or int8")
      ->group(group)
      ->capture_default_str();
  app.add_option("--num-gpu-blocks-override", o.num_blocks_override, "Number of blocks, for tests")
      ->group(group);
  app.add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", o.enable_prefix_caching,
               "Reuse the KV blocks of equal prefixes (default)")
      ->group(group);
}

void add_scheduler_flags(CLI::App& app, EngineOptions& o) {
  const char* group = "Scheduler";
  add_count(app, "--max-num-batched-tokens", o.max_num_batched_tokens, "Tokens of one step", group);
  app.add_option("--max-num-seqs", o.max_num_seqs, "Sequences running at once")
      ->group(group)
      ->capture_default_str();
  app.add_option("--long-prefill-token-threshold", o.long_prefill_token_threshold,
                 "Most prompt tokens of one request in a step; 0: no limit")
      ->group(group)
      ->capture_default_str();
  app.add_option("--scheduling-policy", o.scheduling_policy, "fcfs or priority")
      ->group(group)
      ->capture_default_str();
  app.add_option("--max-num-queued-reqs", o.max_num_queued_reqs,
                 "Waiting requests beyond which new ones get 503; 0: no limit")
      ->group(group);
  add_count(app, "--max-num-queued-tokens", o.max_num_queued_tokens, "The same for waiting prompt tokens",
            group);
}

void add_thread_flags(CLI::App& app, EngineOptions& o) {
  const char* group = "Threads";
  app.add_option("--cpu-threads-bind", o.cpu_threads_bind,
                 "auto, nobind, or CPUs like 0-3,6 (VLLM_CPU_OMP_THREADS_BIND)")
      ->group(group)
      ->capture_default_str();
  app.add_option("--num-reserved-cpu", o.num_reserved_cpu,
                 "CPUs kept free under auto (VLLM_CPU_NUM_OF_RESERVED_CPU)")
      ->group(group);
}

struct IgnoredFlag {
  const char* flag;
  bool value;                  ///< takes one
  const char* only = nullptr;  ///< the only value that is true to what happens here
};

constexpr IgnoredFlag kIgnored[] = {{"--enforce-eager", false},
                                    {"--no-enforce-eager", false},
                                    {"--trust-remote-code", false},
                                    {"--tensor-parallel-size", true, "1"},
                                    {"--pipeline-parallel-size", true, "1"},
                                    {"--data-parallel-size", true, "1"},
                                    {"--api-server-count", true},
                                    {"--tokenizer-mode", true},
                                    {"--config-format", true},
                                    {"--model-impl", true},
                                    {"--download-dir", true},
                                    {"--distributed-executor-backend", true},
                                    {"--enable-chunked-prefill", false},
                                    {"--async-scheduling", false},
                                    {"--no-async-scheduling", false},
                                    {"--prefix-caching-hash-algo", true},
                                    {"--compilation-config", true},
                                    {"--optimization-level", true},
                                    {"--attention-backend", true},
                                    {"--safetensors-load-strategy", true},
                                    {"--use-tqdm-on-load", false},
                                    {"--no-use-tqdm-on-load", false},
                                    {"--disable-custom-all-reduce", false},
                                    {"--performance-mode", true, "balanced"},
                                    {"--swap-space", true},
                                    {"--runner", true},
                                    {"--task", true, "generate"},
                                    {"--disable-log-requests", false},
                                    {"--disable-fastapi-docs", false},
                                    {"--uvicorn-log-level", true},
                                    {"--max-seq-len-to-capture", true},
                                    {"--disable-uvicorn-access-log", false},
                                    {"--disable-frontend-multiprocessing", false},
                                    {"--device", true, "cpu"}};

}  // namespace

void add_engine_flags(CLI::App& app, EngineOptions& options) {
  add_model_flags(app, options);
  add_cache_flags(app, options);
  add_scheduler_flags(app, options);
  add_thread_flags(app, options);
  add_ignored_flags(app);
}

void add_ignored_flags(CLI::App& app) {
  for (const IgnoredFlag& ignored : kIgnored) {
    if (!ignored.value) {
      app.add_flag_function(
             ignored.flag, [&ignored](int64_t) { spdlog::info("{} has no effect here", ignored.flag); }, "")
          ->group("");
      continue;
    }
    app.add_option_function<std::string>(
           ignored.flag,
           [&ignored](const std::string& value) {
             if (ignored.only && value != ignored.only)
               throw Error(ignored.flag, " ", value, " is not supported: this version has only ",
                           ignored.only);
             spdlog::info("{} {} has no effect here", ignored.flag, value);
           },
           "")
        ->group("");
  }
}

void finish_engine_options(EngineOptions& options) {
  if (options.model.empty()) throw Error("MODEL is missing: a folder, a *.gguf file or a hub id");
  if (options.memory_fraction <= 0 || options.memory_fraction > 1)
    throw Error("--gpu-memory-utilization must be in (0, 1], got ", options.memory_fraction);
  if (options.max_num_seqs < 1) throw Error("--max-num-seqs must be at least 1, got ", options.max_num_seqs);
  if (options.max_num_batched_tokens < 1)
    throw Error("--max-num-batched-tokens must be at least 1, got ", options.max_num_batched_tokens);
  if (options.block_size < 1) throw Error("--block-size must be at least 1, got ", options.block_size);
  apply_environment(options);
}

int64_t parse_count(const std::string& text, const std::string& flag) {
  static const std::string kSuffixes = "kmgtKMGT";
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(text, &end);
  } catch (const std::exception&) {
    throw Error(flag, " ", text, ": expected a number such as 4096, 32k or 2G");
  }
  if (end + 1 == text.size() && kSuffixes.find(text[end]) != std::string::npos) {
    size_t suffix = kSuffixes.find(text[end++]);
    value *= std::pow(suffix < 4 ? 1000.0 : 1024.0, static_cast<double>(suffix % 4 + 1));
  }
  if (end != text.size() || !(std::abs(value) < 9e15))
    throw Error(flag, " ", text, ": expected a number such as 4096, 32k or 2G");
  return static_cast<int64_t>(value);
}

}  // namespace octavo
