#include "engine/engine_setup.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/topology.h"

namespace octavo {
namespace {

/// Rows of prompt log-probabilities in a step: their logits are to stay within about 64 MiB.
int64_t prompt_rows(int64_t vocab, int64_t max_tokens) {
  return std::min(max_tokens, std::max<int64_t>(16, (int64_t{64} << 20) / (4 * vocab)));
}

std::vector<int64_t> windows_of(const ModelInfo& model) {
  std::vector<int64_t> windows;
  for (const KvGroupSpec& group : model.kv_groups) windows.push_back(group.window);
  return windows;
}

void complete(EngineConfig& config, const ModelInfo& model) {
  if (config.block_size <= 0) throw Error("--block-size ", config.block_size, " must be positive");
  if (config.max_num_seqs <= 0) throw Error("--max-num-seqs ", config.max_num_seqs, " must be positive");
  if (config.max_num_batched_tokens <= 0)
    throw Error("--max-num-batched-tokens ", config.max_num_batched_tokens, " must be positive");
  constexpr int64_t kMostTokens = int64_t{1} << 24;  // the arrays of a step are reserved, and counted in ints
  if (config.max_num_batched_tokens > kMostTokens)
    throw Error("--max-num-batched-tokens ", config.max_num_batched_tokens, " is more than ", kMostTokens);
  if (config.max_model_len > model.max_model_len)  // its position tables end there
    throw Error("--max-model-len ", config.max_model_len, " is more than the ", model.max_model_len,
                " positions that the model was loaded for");
  // A step decodes all running sequences.
  config.max_num_seqs =
      static_cast<int>(std::min<int64_t>(config.max_num_seqs, config.max_num_batched_tokens));
}

const kernels::AttentionKernel& attention_kernel(const EngineConfig& config,
                                                 const kernels::KernelTable& kernels) {
  const kernels::AttentionKernel& kernel = kernels.attention[static_cast<int>(config.kv_format)];
  if (!kernel.head_bytes)
    throw Error("--kv-cache-dtype: no attention kernel of this CPU stores the KV cache in that format");
  if (config.block_size % std::max(1, kernel.block_step) != 0)
    throw Error("--block-size ", config.block_size, " must be a multiple of ", kernel.block_step);
  return kernel;
}

}  // namespace

EngineParts build_engine_parts(Model& model, EngineConfig& config, Team& team,
                               const kernels::KernelTable& kernels) {
  const ModelInfo& info = model.info();
  complete(config, info);
  EngineParts parts;
  std::vector<int64_t> windows = windows_of(info);
  RunnerLimits limits{config.max_num_batched_tokens, config.max_num_seqs, 0, 0, config.block_size};
  int64_t extra_rows = prompt_rows(info.vocab, config.max_num_batched_tokens);
  parts.max_rows = limits.max_rows = config.max_num_seqs + extra_rows;
  int64_t longest = std::max(config.max_model_len, info.max_model_len);
  limits.max_seq_blocks = (longest + config.block_size - 1) / config.block_size + 1;

  const kernels::AttentionKernel& kernel = attention_kernel(config, kernels);
  size_t block_bytes = kv_block_bytes(info, kernel, config.block_size);
  parts.runner = std::make_unique<Runner>(model, team, kernels, limits);
  int64_t warm_blocks =
      static_cast<int64_t>(windows.size()) * ((16 + config.block_size - 1) / config.block_size);
  {
    KvCache warm(info, kernels, config.kv_format, config.block_size, warm_blocks);
    Runner::Cost cost = parts.runner->warm_up(warm.store(), warm_blocks);
    parts.workspace_bytes = cost.workspace_bytes;
    parts.seconds_per_token = cost.seconds_per_token;
  }
  MemoryLimits memory = available_memory();
  KvPlan plan = plan_kv_cache({.block_bytes = block_bytes,
                               .windows = windows,
                               .block_size = config.block_size,
                               .max_chunk = config.max_num_batched_tokens,
                               .max_num_seqs = config.max_num_seqs,
                               .max_model_len = config.max_model_len,
                               .model_max_len = info.max_model_len,
                               .explicit_bytes = config.kv_cache_bytes,
                               .fraction = config.kv_memory_fraction,
                               .available = static_cast<size_t>(memory.available),
                               .reserved = parts.workspace_bytes,
                               .limit = memory.text,
                               .num_blocks_override = config.num_blocks_override});
  config.max_model_len = plan.max_model_len;
  parts.kv_bytes = plan.num_blocks * block_bytes;
  parts.cache =
      std::make_unique<KvCache>(info, kernels, config.kv_format, config.block_size, plan.num_blocks);
  parts.pool = std::make_unique<BlockPool>(static_cast<int32_t>(plan.num_blocks));
  parts.blocks =
      std::make_unique<KvBlocks>(*parts.pool, KvBlocksConfig{.windows = windows,
                                                             .block_size = config.block_size,
                                                             .max_chunk = config.max_num_batched_tokens,
                                                             .max_len = config.max_model_len,
                                                             .prefix_caching = config.enable_prefix_caching});
  parts.scheduler = std::make_unique<Scheduler>(
      SchedulerConfig{.max_num_batched_tokens = config.max_num_batched_tokens,
                      .max_num_seqs = config.max_num_seqs,
                      .long_prefill_token_threshold = config.long_prefill_token_threshold,
                      .max_prompt_logit_rows = extra_rows,
                      .policy = config.policy},
      *parts.blocks, *parts.pool);
  return parts;
}

std::unique_ptr<Sequence> make_sequence(EngineRequest request, const EngineConfig& config,
                                        const ModelInfo& model, const KvBlocks& blocks,
                                        uint64_t arrival_order) {
  auto seq = std::make_unique<Sequence>();
  seq->id = request.id;
  seq->priority = request.priority;
  seq->arrival_order = arrival_order;
  seq->tokens = std::move(request.prompt);
  seq->prompt_len = seq->len();
  seq->sampling = std::move(request.sampling);
  // The last token needs no KV: it is never computed.
  seq->max_len = std::min(
      {seq->prompt_len + std::max<int64_t>(0, std::min(seq->sampling.max_tokens, config.max_model_len)),
       config.max_model_len, blocks.longest_alone() + 1});
  seq->all_logits = seq->sampling.prompt_logprobs >= 0;
  seq->read_prefix_cache = !seq->all_logits;
  seq->tokens.reserve(seq->max_len);

  int64_t full_blocks = seq->max_len / config.block_size + 1;
  seq->root = root_hash(request.cache_salt);
  seq->hashes.reserve(full_blocks);
  if (config.enable_prefix_caching) blocks.know_hashes(*seq, seq->prompt_len / config.block_size);
  seq->blocks.resize(blocks.num_groups());
  for (auto& table : seq->blocks) table.reserve(full_blocks);
  seq->first_block.resize(blocks.num_groups());

  auto entries = [&](int32_t k) {
    return k < 0 ? 0 : static_cast<int>(std::min<int64_t>(k, model.vocab)) + 1;
  };
  uint64_t seed = seq->sampling.seed
                      ? static_cast<uint64_t>(*seq->sampling.seed)
                      : static_cast<uint64_t>(counter_uniform(~config.seed, arrival_order) * 0x1p53);
  seq->sampler = std::make_unique<SamplerState>(seq->sampling, seq->tokens, seq->max_len, model.vocab, seed);
  seq->stream = std::make_shared<TokenStream>(
      seq->id, seq->max_len - seq->prompt_len, entries(seq->sampling.logprobs),
      seq->all_logits ? seq->prompt_len : 0, entries(seq->sampling.prompt_logprobs));
  return seq;
}

}  // namespace octavo
