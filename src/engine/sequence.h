// One request inside the engine: its tokens, where their KV lies, how far it has come. Built by the
// submitter's thread with all memory that it can ever need; from then on the engine thread's alone (but for
// `aborted`).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/block_hash.h"
#include "engine/request.h"
#include "engine/token_stream.h"

namespace octavo {

class SamplerState;

struct Sequence {
  // What the scheduler reads and writes: integers only.
  uint64_t id = 0;
  int32_t priority = 0;
  uint64_t arrival_order = 0;   ///< of submits; breaks ties of priority
  std::vector<int32_t> tokens;  ///< prompt, then output
  int64_t prompt_len = 0;
  int64_t max_len = 0;   ///< prompt and output at most; tokens are reserved to it
  int64_t computed = 0;  ///< leading tokens whose KV is in the cache
  bool read_prefix_cache = true;
  bool all_logits = false;  ///< prompt_logprobs: a logit row for each prompt token
  std::vector<BlockHash>
      hashes;      ///< of full blocks, as far as known; hashes[i] covers tokens [0, (i + 1) * block)
  BlockHash root;  ///< parent of hashes[0]
  std::vector<std::vector<int32_t>> blocks;  ///< [group][index]: block ids; -1 where the window has passed
  std::vector<int64_t> first_block;          ///< [group]: indices below have been given back
  bool running = false, ended = false;
  int64_t cached = -1;  ///< prompt tokens found in the prefix cache at first admission; -1: not yet
  int64_t preemptions = 0;
  Sequence *previous = nullptr, *next = nullptr;  ///< waiting queue

  int64_t len() const { return static_cast<int64_t>(tokens.size()); }
  int64_t outputs() const { return len() - prompt_len; }

  // What the engine adds.
  SamplingParams sampling;
  std::unique_ptr<SamplerState> sampler;
  std::shared_ptr<TokenStream> stream;
  std::atomic<bool> aborted{false};  ///< set by any thread, seen by the next step
  int64_t prompt_logprobs_done = 1;  ///< prompt positions reported; position 0 has none
  double arrival = 0, scheduled = 0, first_token = 0, last_token = 0;  ///< steady-clock seconds

  Sequence();
  ~Sequence();
};

}  // namespace octavo
