#include "engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "engine/engine_setup.h"
#include "engine/prefill_pacer.h"
#include "engine/request_queue.h"
#include "engine/runner.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"

namespace octavo {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

int64_t prompt_tokens_in(const StepPlan& plan) {
  int64_t sum = 0;
  for (const PlannedChunk& c : plan.chunks)
    sum += std::max<int64_t>(0, std::min(c.first + c.count, c.seq->prompt_len) - c.first);
  return sum;
}

const char* text(SampleError error) {
  return error == SampleError::kNotFinite ? "the model produced NaN or infinite logits"
                                          : "the request's token rules exclude every token";
}

}  // namespace

struct Engine::Impl {
  Impl(std::unique_ptr<Model> model, const EngineConfig& config, Team& team,
       const kernels::KernelTable& kernels);

  // Submitters' side.
  std::shared_ptr<TokenStream> submit(EngineRequest request, Refusal* refusal);
  Refusal check(const EngineRequest& request) const;
  void stop();
  bool reset_prefix_cache();

  // Engine thread.
  void loop();
  bool step();
  bool drain();
  void note_admissions(const StepPlan& plan);
  float* run(const StepPlan& plan);
  void sample(float* logits);
  void commit(const StepPlan& plan);
  void commit_row(const LogitRow& row, const SampleResult& result);
  FinishReason stop_reason(const Sequence& seq, int32_t token, int32_t* stop_token) const;
  void finish(Sequence* seq, FinishReason reason, std::string error = {}, int32_t stop_token = -1);
  void corrupt(Sequence* seq, const std::string& error);
  void fail_plan(const StepPlan& plan, const std::string& error);
  bool fail_stuck();
  void report(int64_t tokens);

  EngineConfig config;
  std::unique_ptr<Model> model;
  Team& team;
  EngineParts parts;  // KV cache, blocks, scheduler, runner
  Sampler sampler;
  PrefillPacer pacer;
  std::vector<SampleResult> results;  // [rows]
  std::function<void(const StepReport&)> listener;

  RequestQueue queue;

  mutable std::mutex stats_mutex;
  EngineStats stats;
  EngineStats counters;  // the engine thread's own; copied to stats after each step
  std::thread thread;
};

Engine::Impl::Impl(std::unique_ptr<Model> model_in, const EngineConfig& config_in, Team& team_in,
                   const kernels::KernelTable& kernels)
    : config(config_in),
      model(std::move(model_in)),
      team(team_in),
      parts(build_engine_parts(*model, config, team, kernels)),
      sampler(kernels, model->info().vocab, team.size()),
      pacer(parts.seconds_per_token) {
  results.reserve(parts.max_rows);
  counters.num_blocks = parts.pool->num_blocks();
  counters.block_size = config.block_size;
  counters.kv_cache_tokens = std::min(parts.blocks->longest_alone(), counters.num_blocks * config.block_size);
  counters.max_model_len = config.max_model_len;
  counters.kv_bytes = parts.kv_bytes;
  counters.workspace_bytes = parts.workspace_bytes;
  stats = counters;
}

// ---- submit and abort: any thread ------------------------------------------------------------------------

Engine::Refusal Engine::Impl::check(const EngineRequest& request) const {
  int64_t len = static_cast<int64_t>(request.prompt.size());
  int64_t least = len + (request.sampling.max_tokens > 0 ? 1 : 0);
  if (least > config.max_model_len || len > parts.blocks->longest_alone()) return Refusal::kTooLong;
  for (int32_t id : request.prompt)
    if (id < 0 || id >= model->info().vocab) return Refusal::kBadToken;
  if (config.max_num_queued_reqs > 0 && queue.requests() >= config.max_num_queued_reqs)
    return Refusal::kQueueFull;
  if (config.max_num_queued_tokens > 0 && queue.tokens() + len > config.max_num_queued_tokens)
    return Refusal::kQueueFull;
  return Refusal::kNone;
}

std::shared_ptr<TokenStream> Engine::Impl::submit(EngineRequest request, Refusal* refusal) {
  OCTAVO_CHECK(!request.prompt.empty(), "request ", request.id, " has no prompt");
  Refusal verdict = check(request);
  std::shared_ptr<TokenStream> stream;
  if (verdict == Refusal::kNone) {
    std::unique_ptr<Sequence> seq =
        make_sequence(std::move(request), config, model->info(), *parts.blocks, queue.next_arrival());
    stream = seq->stream;
    seq->arrival = now();
    if (!queue.push(std::move(seq))) {
      stream = nullptr;
      verdict = Refusal::kStopping;
    }
  }
  if (refusal) *refusal = verdict;
  return stream;
}

void Engine::Impl::stop() {
  queue.close();
  if (thread.joinable()) thread.join();
  if (drain()) report(0);
}

/// The pool is the engine thread's.
bool Engine::Impl::reset_prefix_cache() {
  return thread.joinable() ? queue.ask_reset() : parts.pool->reset_cache();
}

// ---- the engine thread -----------------------------------------------------------------------------------

void Engine::Impl::loop() {
  team.bind_caller();
  for (bool busy = false; queue.wait(busy);) busy = step();
}

bool Engine::Impl::step() {
  bool ended = drain();
  const StepPlan& plan = parts.scheduler->plan(pacer.with_decodes(), pacer.alone());
  note_admissions(plan);
  for (Sequence* seq : plan.outgrown) finish(seq, FinishReason::kLength);
  if (plan.chunks.empty()) {
    ended |= !plan.outgrown.empty() || (plan.preempted == 0 && fail_stuck());
    if (ended) report(0);
    return ended || plan.preempted > 0;
  }
  double start = now();
  int64_t tokens = prompt_tokens_in(plan), generated = counters.generation_tokens;
  if (float* logits = run(plan)) {
    sample(logits);
    commit(plan);
  }
  pacer.observe(plan.tokens, plan.prefill_tokens, now() - start);
  ++counters.steps;
  report(tokens + counters.generation_tokens - generated);
  return true;
}

/// Takes in what arrived, ends what was aborted. True if a request ended.
bool Engine::Impl::drain() {
  bool aborts = false, ended = false;
  queue.answer_reset([this] { return parts.pool->reset_cache(); });
  for (Sequence* seq : queue.take(&aborts)) {
    parts.scheduler->add(seq);
    if (seq->max_len > seq->prompt_len || seq->all_logits) continue;
    finish(seq, FinishReason::kLength);  // max_tokens 0 and nothing to score
    ended = true;
  }
  if (!aborts) return ended;
  for (Sequence *seq = parts.scheduler->first_waiting(), *next; seq; seq = next) {
    next = seq->next;
    if (!seq->aborted) continue;
    finish(seq, FinishReason::kAbort);
    ended = true;
  }
  for (size_t i = parts.scheduler->running().size(); i-- > 0;) {
    Sequence* seq = parts.scheduler->running()[i];
    if (!seq->aborted) continue;
    finish(seq, FinishReason::kAbort);
    ended = true;
  }
  return ended;
}

void Engine::Impl::note_admissions(const StepPlan& plan) {
  counters.preemptions += plan.preempted;
  counters.prefix_queries += plan.prefix_queries;
  counters.prefix_hits += plan.prefix_hits;
  if (plan.admitted == 0) return;
  double time = now();
  for (const PlannedChunk& chunk : plan.chunks) {
    if (chunk.seq->scheduled > 0) continue;
    chunk.seq->scheduled = time;
    queue.scheduled(*chunk.seq);
  }
}

/// Null when the step failed; its requests are ended then. The others go on.
float* Engine::Impl::run(const StepPlan& plan) {
  try {
    return parts.runner->run(plan, parts.cache->store());
  } catch (const std::exception& error) {
    fail_plan(plan, str("the step failed: ", error.what()));
    return nullptr;
  }
}

void Engine::Impl::sample(float* logits) {
  const std::vector<LogitRow>& rows = parts.runner->rows();
  const int64_t vocab = model->info().vocab;
  results.assign(rows.size(), {});
  auto row = [&](int i, int worker) {
    const LogitRow& r = rows[i];
    float* x = logits + i * vocab;
    Sequence& seq = *r.seq;
    if (r.score)
      results[i].error = sampler.score(seq.sampling.logprobs_mode, seq.tokens[r.position + 1], x,
                                       seq.stream->prompt_logprobs_slot(r.position + 1), worker);
    if (!r.sample) return;
    std::span<const int32_t> output(seq.tokens.data() + seq.prompt_len, seq.outputs());
    results[i] = sampler.sample(seq.sampling, *seq.sampler, output, x, worker);
  };
  // Below about 100 us of work a fork costs more than it brings.
  if (static_cast<int64_t>(rows.size()) * vocab < 200000 || rows.size() < 2)
    for (size_t i = 0; i < rows.size(); ++i) row(static_cast<int>(i), 0);
  else
    team.run(static_cast<int>(rows.size()), row);
}

void Engine::Impl::commit(const StepPlan& plan) {
  parts.scheduler->commit();
  const std::vector<LogitRow>& rows = parts.runner->rows();
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].seq->ended) commit_row(rows[i], results[i]);
  for (const PlannedChunk& chunk : plan.chunks) {
    if (!chunk.samples || chunk.seq->ended || chunk.seq->max_len > chunk.seq->prompt_len) continue;
    counters.prompt_tokens += chunk.seq->prompt_len;  // scored, and no token wanted
    finish(chunk.seq, FinishReason::kLength);
  }
}

void Engine::Impl::commit_row(const LogitRow& row, const SampleResult& result) {
  Sequence& seq = *row.seq;
  if (result.error != SampleError::kNone) return corrupt(&seq, text(result.error));
  if (row.score) seq.prompt_logprobs_done = row.position + 2;
  if (!row.sample) return;
  seq.last_token = now();
  if (seq.outputs() == 0) {
    seq.first_token = seq.last_token;
    counters.prompt_tokens += seq.prompt_len;
  }
  seq.tokens.push_back(result.token);
  seq.sampler->observe(result.token);
  seq.stream->append(result.token, seq.sampler->logprobs);
  ++counters.generation_tokens;
  int32_t stop_token = -1;
  FinishReason reason = stop_reason(seq, result.token, &stop_token);
  if (reason == FinishReason::kNone) return seq.stream->publish();
  finish(&seq, reason, {}, stop_token);
}

/// EOS, then the request's stop ids, then length (surface document, section 5).
FinishReason Engine::Impl::stop_reason(const Sequence& seq, int32_t token, int32_t* stop_token) const {
  if (seq.outputs() >= seq.sampling.min_tokens) {
    if (!seq.sampling.ignore_eos && contains(seq.sampling.eos_ids, token)) return FinishReason::kStop;
    if (contains(seq.sampling.stop_token_ids, token)) {
      *stop_token = token;
      return FinishReason::kStop;
    }
  }
  return seq.len() >= seq.max_len ? FinishReason::kLength : FinishReason::kNone;
}

// ---- ends ------------------------------------------------------------------------------------------------

void Engine::Impl::finish(Sequence* seq, FinishReason reason, std::string error, int32_t stop_token) {
  parts.scheduler->remove(seq);
  if (seq->scheduled == 0) queue.scheduled(*seq);
  if (reason == FinishReason::kError) ++counters.corrupted_requests;
  seq->ended = true;
  seq->stream->finish({.reason = reason,
                       .stop_token = stop_token,
                       .error = std::move(error),
                       .arrival = seq->arrival,
                       .scheduled = seq->scheduled,
                       .first_token = seq->first_token,
                       .last_token = seq->last_token,
                       .cached_tokens = std::max<int64_t>(0, seq->cached),
                       .preemptions = seq->preemptions});
  queue.retire(*seq);
}

/// The model's arithmetic failed for this sequence alone: nothing of it may reach a later one.
void Engine::Impl::corrupt(Sequence* seq, const std::string& error) {
  parts.blocks->unpublish(*seq, 0);
  for (const std::vector<int32_t>& blocks : seq->blocks)
    for (int32_t block : blocks)
      if (block >= 0 && parts.pool->refs(block) == 1) parts.cache->clear_block(block);
  spdlog::error("request {} ended: {}", seq->id, error);
  finish(seq, FinishReason::kError, error);
}

void Engine::Impl::fail_plan(const StepPlan& plan, const std::string& error) {
  spdlog::error("{}; {} requests ended", error, plan.chunks.size());
  parts.scheduler->discard_plan();
  for (const PlannedChunk& chunk : plan.chunks) finish(chunk.seq, FinishReason::kError, error);
}

/// Nothing runs and the first in the queue still does not fit. submit() refuses such requests; should one
/// slip through, it must not hold up those behind it for ever.
bool Engine::Impl::fail_stuck() {
  Sequence* seq = parts.scheduler->first_waiting();
  if (!seq || parts.scheduler->num_running() > 0) return false;
  finish(seq, FinishReason::kError, "the request does not fit into the KV cache");
  return true;
}

void Engine::Impl::report(int64_t tokens) {
  counters.running = parts.scheduler->num_running();
  counters.waiting = parts.scheduler->num_waiting();
  counters.kv_usage = 1.0 - static_cast<double>(parts.pool->num_free()) / parts.pool->num_blocks();
  {
    std::lock_guard lock(stats_mutex);
    stats = counters;
  }
  if (listener) listener({tokens});
}

// ---- the facade ------------------------------------------------------------------------------------------

Engine::Engine(std::unique_ptr<Model> model, const EngineConfig& config, Team& team,
               const kernels::KernelTable& kernels)
    : impl_(std::make_unique<Impl>(std::move(model), config, team, kernels)) {}
Engine::~Engine() { stop(); }
void Engine::start() {
  impl_->thread = std::thread([this] { impl_->loop(); });
}
void Engine::stop() { impl_->stop(); }
std::shared_ptr<TokenStream> Engine::submit(EngineRequest request, Refusal* refusal) {
  return impl_->submit(std::move(request), refusal);
}
void Engine::abort(uint64_t id) { impl_->queue.abort(id); }
bool Engine::step() { return impl_->step(); }
void Engine::set_listener(std::function<void(const StepReport&)> listener) {
  impl_->listener = std::move(listener);
}
EngineStats Engine::stats() const {
  std::lock_guard lock(impl_->stats_mutex);
  return impl_->stats;
}
bool Engine::reset_prefix_cache() { return impl_->reset_prefix_cache(); }
const ModelInfo& Engine::model_info() const { return impl_->model->info(); }
const EngineConfig& Engine::config() const { return impl_->config; }

}  // namespace octavo
