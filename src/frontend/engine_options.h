// What vLLM calls engine arguments: flags and environment variables of every command that loads a model.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace octavo {

struct EngineOptions {
  // Model.
  std::string model;      ///< folder, *.gguf file or hub id
  std::string tokenizer;  ///< folder or tokenizer.json; empty: the model's
  std::string revision = "main";
  std::string dtype = "auto";  ///< auto, bfloat16, float32 (float16 and half run as bfloat16)
  std::string load_format = "auto";
  std::string quantization;                ///< int8, int4, fp8, mxfp4: at load; empty: as the checkpoint is
  nlohmann::json quantization_config;      ///< {"ignore": [...]}, or null
  bool decode_weights = false;             ///< quantised weights become dtype at load
  std::string gguf_activations = "int8";   ///< float, or int8: quant/int8_activations.h
  std::string int4_activations = "float";  ///< float, or int8: W4A16 runs as W4A8
  std::optional<int64_t> max_model_len;    ///< absent: the model's; -1: the longest that the KV cache holds
  std::string chat_template;               ///< file, or one line of Jinja; empty: the model's
  std::string chat_template_content_format = "auto";
  std::string generation_config = "auto";  ///< auto, vllm (ignore the model's), or a folder
  nlohmann::json override_generation_config = nlohmann::json::object();
  int64_t max_logprobs = 20;
  std::string logprobs_mode = "raw_logprobs";
  uint64_t seed = 0;

  // KV cache and scheduler.
  int block_size = 32;
  double memory_fraction = 0.92;  ///< --gpu-memory-utilization: of what is available to us
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<double> kv_cache_space;  ///< GiB, VLLM_CPU_KVCACHE_SPACE; wins over kv_cache_memory_bytes
  std::string kv_cache_dtype = "auto";   ///< auto, bfloat16, float32, fp8, fp8_e4m3, int8
  int64_t num_blocks_override = 0;
  bool enable_prefix_caching = true;
  int64_t max_num_batched_tokens = 2048;
  int max_num_seqs = 128;
  int64_t long_prefill_token_threshold = 0;
  std::string scheduling_policy = "fcfs";
  int64_t max_num_queued_reqs = 0, max_num_queued_tokens = 0;

  // Threads: the VLLM_CPU_* variables and their flags.
  std::string cpu_threads_bind = "auto";
  std::optional<int> num_reserved_cpu;
};

/// Fills what flags did not set from VLLM_CPU_OMP_THREADS_BIND, VLLM_CPU_KVCACHE_SPACE,
/// VLLM_CPU_NUM_OF_RESERVED_CPU. Error naming the variable.
void apply_environment(EngineOptions& options);

}  // namespace octavo
