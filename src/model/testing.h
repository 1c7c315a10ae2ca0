// Runs a Model without an engine, for tests and benches: block tables, slots and KV memory for a list of
// sequences, in any chunks and batches. Blocks are handed out in a shuffled order, memory that was never
// written is NaN, and blocks that a sliding window has passed are taken away, so that a read of what a token
// must not see shows.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "load/hf_config.h"
#include "model/registry.h"

namespace octavo {

/// Everything a forward needs besides the model.
struct TestMachine {
  Team team;
  Workspace workspace{size_t{4} << 30};  // mapped without reserve
  OpContext ctx;

  explicit TestMachine(const kernels::KernelTable& kernels, std::vector<int> cpus = {0, 1}, bool pin = false)
      : team({std::move(cpus), pin}), ctx{team, workspace, kernels} {}
};

/// One sequence: tokens so far, and how many of them have their keys in the cache.
struct TestSequence {
  std::vector<int32_t> ids;
  int64_t done = 0;
  std::vector<std::vector<int32_t>> tables{};  ///< per KV group
};

class TestRunner {
 public:
  struct Work {
    TestSequence* sequence;
    int count;  ///< tokens to compute now
    enum Logits { kNone, kLast, kAll } logits;
  };

  TestRunner(Model& model, OpContext& ctx, kernels::KvFormat format, int block_size, int num_blocks,
             uint32_t seed)
      : model_(model), ctx_(ctx), block_size_(block_size) {
    const ModelInfo& info = model.info();
    const kernels::AttentionKernel& kernel = ctx.kernels.attention[static_cast<int>(format)];
    const int64_t head_bytes = kernel.head_bytes(block_size, info.head_dim);
    int regions = 0;
    for (const KvGroupSpec& group : info.kv_groups) regions = std::max(regions, group.layers);
    kv_.format = format;
    for (int i = 0; i < regions; ++i) {
      const size_t bytes = head_bytes * info.kv_heads * num_blocks;
      memory_.push_back(std::make_unique<std::byte[]>(bytes + 64));
      void* base = memory_.back().get();
      size_t space = bytes + 64;
      std::align(64, bytes, base, space);
      std::memset(base, 0xff, bytes);  // NaN in F32 and BF16
      kv_.regions.push_back(
          {static_cast<std::byte*>(base), head_bytes, info.kv_heads, block_size, info.head_dim});
    }
    free_.resize(num_blocks);
    std::iota(free_.begin(), free_.end(), 0);
    std::shuffle(free_.begin(), free_.end(), std::mt19937(seed));
  }

  /// Logits [rows, vocab] in the order of the work. Sequences advance.
  std::vector<float> step(const std::vector<Work>& work) {
    build(work);
    std::vector<float> logits(logit_rows_.size() * model_.info().vocab);
    model_.forward(ctx_, input_, kv_, logits.data());
    OCTAVO_CHECK(ctx_.workspace.used() == 0, "a forward left memory in the workspace");
    for (const Work& w : work) w.sequence->done += w.count;
    return logits;
  }

  /// As step(), without building anything: runs the last input again (benches).
  void repeat(float* logits) { model_.forward(ctx_, input_, kv_, logits); }

  void release(TestSequence& sequence) {
    for (auto& table : sequence.tables)
      for (int32_t block : table)
        if (block >= 0) free_.push_back(block);
    sequence.tables.clear();
  }

 private:
  void build(const std::vector<Work>& work) {
    const size_t groups = model_.info().kv_groups.size();
    ids_.clear(), positions_.clear(), context_len_.clear(), logit_rows_.clear();
    query_start_.assign(1, 0);
    slots_.assign(groups, {});
    int64_t max_blocks = 1;
    for (const Work& w : work) {
      add_tokens(w);
      max_blocks = std::max<int64_t>(max_blocks, w.sequence->tables[0].size());
    }
    group_steps_.clear();
    tables_.assign(groups, std::vector<int32_t>(max_blocks * work.size(), -1));
    for (size_t g = 0; g < groups; ++g) {
      for (size_t s = 0; s < work.size(); ++s)
        std::copy(work[s].sequence->tables[g].begin(), work[s].sequence->tables[g].end(),
                  tables_[g].begin() + s * max_blocks);
      group_steps_.push_back({tables_[g].data(), max_blocks, slots_[g].data()});
    }
    input_ = {static_cast<int>(ids_.size()),
              ids_.data(),
              positions_.data(),
              static_cast<int>(work.size()),
              query_start_.data(),
              context_len_.data(),
              group_steps_.data(),
              static_cast<int>(logit_rows_.size()),
              logit_rows_.data()};
  }

  void add_tokens(const Work& w) {
    TestSequence& s = *w.sequence;
    OCTAVO_CHECK(s.done + w.count <= static_cast<int64_t>(s.ids.size()));
    s.tables.resize(slots_.size());
    const int64_t end = s.done + w.count;
    for (size_t g = 0; g < slots_.size(); ++g) {
      std::vector<int32_t>& table = s.tables[g];
      const int64_t window = model_.info().kv_groups[g].window;
      for (int64_t b = 0; window && (b + 1) * block_size_ <= s.done - window + 1; ++b) drop(table[b]);
      while (static_cast<int64_t>(table.size()) * block_size_ < end) table.push_back(take());
      for (int64_t p = s.done; p < end; ++p)
        slots_[g].push_back(static_cast<int32_t>(table[p / block_size_] * block_size_ + p % block_size_));
    }
    for (int64_t p = s.done; p < end; ++p) {
      if (w.logits == Work::kAll || (w.logits == Work::kLast && p == end - 1))
        logit_rows_.push_back(static_cast<int32_t>(ids_.size()));
      ids_.push_back(s.ids[p]);
      positions_.push_back(static_cast<int32_t>(p));
    }
    query_start_.push_back(static_cast<int32_t>(ids_.size()));
    context_len_.push_back(static_cast<int32_t>(end));
  }

  int32_t take() {
    OCTAVO_CHECK(!free_.empty(), "the test's KV memory is too small");
    int32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  void drop(int32_t& block) {
    if (block >= 0) free_.insert(free_.begin(), block);
    block = -1;
  }

  Model& model_;
  OpContext& ctx_;
  int block_size_;
  KvStore kv_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<int32_t> free_;
  StepInput input_{};
  std::vector<int32_t> ids_, positions_, query_start_, context_len_, logit_rows_;
  std::vector<std::vector<int32_t>> slots_, tables_;
  std::vector<KvGroupStep> group_steps_;
};

/// Greedy continuation of one prompt: `count` tokens, and the logits that each was chosen from.
struct Generation {
  std::vector<int32_t> ids;
  std::vector<std::vector<float>> logits;
};

/// First maximum; -1 if there is a NaN.
inline int32_t greedy_token(OpContext& ctx, const std::vector<float>& logits) {
  return static_cast<int32_t>(
      ctx.kernels.sampling.argmax(logits.data(), static_cast<int64_t>(logits.size())));
}

/// All prompts at once, as an engine does it: each step takes up to `chunk` prompt tokens or one decode of
/// every sequence.
inline std::vector<Generation> generate(TestRunner& runner, OpContext& ctx, int64_t vocab,
                                        const std::vector<std::vector<int32_t>>& prompts, int chunk,
                                        int count) {
  std::vector<TestSequence> sequences;
  for (const auto& prompt : prompts) sequences.push_back({prompt});
  std::vector<Generation> out(prompts.size());
  while (true) {
    std::vector<TestRunner::Work> work;
    std::vector<size_t> owners;  // of the logit rows: a chunk within a prompt has none
    for (size_t i = 0; i < prompts.size(); ++i) {
      TestSequence& s = sequences[i];
      if (static_cast<int>(out[i].ids.size()) == count) continue;
      const int64_t left = static_cast<int64_t>(s.ids.size()) - s.done;
      const bool last = left <= chunk;
      work.push_back({&s, static_cast<int>(std::min<int64_t>(chunk, left)),
                      last ? TestRunner::Work::kLast : TestRunner::Work::kNone});
      if (last) owners.push_back(i);
    }
    if (work.empty()) break;
    const std::vector<float> logits = runner.step(work);
    for (size_t r = 0; r < owners.size(); ++r) {
      Generation& g = out[owners[r]];
      g.logits.emplace_back(logits.begin() + r * vocab, logits.begin() + (r + 1) * vocab);
      g.ids.push_back(greedy_token(ctx, g.logits.back()));
      sequences[owners[r]].ids.push_back(std::max(g.ids.back(), 0));
    }
  }
  for (TestSequence& s : sequences) runner.release(s);
  return out;
}

}  // namespace octavo
