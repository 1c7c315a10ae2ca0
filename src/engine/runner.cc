#include "engine/runner.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace octavo {
namespace {

// Address space only: pages appear as far as steps use them.
constexpr size_t kWorkspaceBytes = size_t{64} << 30;

void reserve_and_clear(std::vector<int32_t>& v, int64_t n) {
  v.reserve(n);
  v.clear();
}

}  // namespace

Runner::Runner(Model& model, Team& team, const kernels::KernelTable& kernels, const RunnerLimits& limits)
    : model_(model), limits_(limits), workspace_(kWorkspaceBytes), context_{team, workspace_, kernels} {
  size_t groups = model.info().kv_groups.size();
  for (auto* v : {&token_ids_, &positions_}) reserve_and_clear(*v, limits.max_tokens);
  reserve_and_clear(query_start_, limits.max_seqs + 1);
  reserve_and_clear(context_len_, limits.max_seqs);
  reserve_and_clear(logit_rows_, limits.max_rows);
  rows_.reserve(limits.max_rows);
  tables_.resize(groups);
  slots_.resize(groups);
  groups_.resize(groups);
  for (auto& v : tables_) v.reserve(limits.max_seqs * limits.max_seq_blocks);
  for (auto& v : slots_) v.reserve(limits.max_tokens);
}

float* Runner::run(const StepPlan& plan, const KvStore& kv) {
  for (auto* v : {&token_ids_, &positions_, &query_start_, &context_len_, &logit_rows_}) v->clear();
  for (auto& v : slots_) v.clear();
  rows_.clear();
  query_start_.push_back(0);
  for (const PlannedChunk& chunk : plan.chunks) {
    int64_t first_token = static_cast<int64_t>(token_ids_.size());
    add_tokens(chunk);
    add_rows(chunk, first_token);
  }
  fill_tables(plan);
  return forward(kv);
}

void Runner::add_tokens(const PlannedChunk& chunk) {
  const Sequence& seq = *chunk.seq;
  for (int64_t p = chunk.first; p < chunk.first + chunk.count; ++p) {
    token_ids_.push_back(seq.tokens[p]);
    positions_.push_back(static_cast<int32_t>(p));
    for (size_t g = 0; g < slots_.size(); ++g) {
      int64_t block = seq.blocks[g][p / limits_.block_size];
      slots_[g].push_back(static_cast<int32_t>(block * limits_.block_size + p % limits_.block_size));
    }
  }
  query_start_.push_back(static_cast<int32_t>(token_ids_.size()));
  context_len_.push_back(static_cast<int32_t>(chunk.first + chunk.count));
}

// A preempted sequence comes by its prompt again: what was reported is not computed twice.
void Runner::add_rows(const PlannedChunk& chunk, int64_t first_token) {
  const Sequence& seq = *chunk.seq;
  int64_t end = chunk.first + chunk.count;
  for (int64_t p = seq.all_logits ? chunk.first : end - 1; p < end; ++p) {
    bool score = seq.all_logits && p + 1 < seq.prompt_len && p + 1 >= seq.prompt_logprobs_done;
    bool sample = chunk.samples && p + 1 == end && seq.len() < seq.max_len;
    if (!score && !sample) continue;
    rows_.push_back({chunk.seq, p, sample, score});
    logit_rows_.push_back(static_cast<int32_t>(first_token + p - chunk.first));
  }
}

void Runner::fill_tables(const StepPlan& plan) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    size_t stride = 1;
    for (const PlannedChunk& chunk : plan.chunks) stride = std::max(stride, chunk.seq->blocks[g].size());
    tables_[g].clear();
    for (const PlannedChunk& chunk : plan.chunks) {
      const std::vector<int32_t>& blocks = chunk.seq->blocks[g];
      tables_[g].insert(tables_[g].end(), blocks.begin(), blocks.end());
      tables_[g].insert(tables_[g].end(), stride - blocks.size(), -1);
    }
    groups_[g] = {tables_[g].data(), static_cast<int64_t>(stride), slots_[g].data()};
  }
}

float* Runner::forward(const KvStore& kv) {
  StepInput step{.num_tokens = static_cast<int>(token_ids_.size()),
                 .token_ids = token_ids_.data(),
                 .positions = positions_.data(),
                 .num_seqs = static_cast<int>(context_len_.size()),
                 .query_start = query_start_.data(),
                 .context_len = context_len_.data(),
                 .kv_groups = groups_.data(),
                 .num_logit_rows = static_cast<int>(logit_rows_.size()),
                 .logit_rows = logit_rows_.data()};
  OCTAVO_CHECK(step.num_tokens <= limits_.max_tokens && step.num_logit_rows <= limits_.max_rows);
  Workspace::Scope scope(workspace_);  // the memory stays readable until the next run
  float* logits = workspace_.alloc<float>(step.num_logit_rows * model_.info().vocab);
  model_.forward(context_, step, kv, logits);
  return logits;
}

Runner::Cost Runner::warm_up(const KvStore& kv, int64_t num_blocks) {
  int64_t room = std::min<int64_t>(num_blocks / static_cast<int64_t>(groups_.size()) * limits_.block_size,
                                   limits_.max_tokens);
  int64_t most = std::min<int64_t>(16, room), half = std::max<int64_t>(1, most / 2);
  Cost cost{};
  size_t before = 0;
  for (int64_t tokens : {half, most}) {
    Sequence seq;
    seq.tokens.assign(tokens, 0);
    seq.prompt_len = tokens;
    seq.max_len = tokens + 1;
    int32_t block = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      seq.blocks.emplace_back();
      for (int64_t i = 0; i * limits_.block_size < tokens; ++i) seq.blocks[g].push_back(block++);
    }
    StepPlan plan;
    plan.chunks.push_back({&seq, 0, static_cast<int32_t>(tokens), true});
    auto start = std::chrono::steady_clock::now();
    run(plan, kv);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    cost.seconds_per_token = took.count() / static_cast<double>(tokens);
    double slope = tokens > half
                       ? static_cast<double>(workspace_.peak() - before) / static_cast<double>(tokens - half)
                       : 0;
    cost.workspace_bytes = workspace_.peak() +
                           static_cast<size_t>(slope * static_cast<double>(limits_.max_tokens - tokens)) +
                           limits_.max_rows * model_.info().vocab * sizeof(float);
    before = workspace_.peak();
  }
  return cost;
}

}  // namespace octavo
