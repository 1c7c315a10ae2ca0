#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace octavo {

Scheduler::Scheduler(const SchedulerConfig& config, KvBlocks& kv, BlockPool& pool)
    : config_(config), kv_(kv), pool_(pool) {
  OCTAVO_CHECK(config.max_num_seqs > 0 && config.max_num_seqs <= config.max_num_batched_tokens);
  running_.reserve(config.max_num_seqs);
  plan_.chunks.reserve(config.max_num_seqs);
  plan_.outgrown.reserve(config.max_num_seqs);
}

bool Scheduler::before(const Sequence& a, const Sequence& b) const {
  if (config_.policy == SchedulingPolicy::kPriority && a.priority != b.priority)
    return a.priority < b.priority;
  return a.arrival_order < b.arrival_order;
}

// ---- waiting queue

void Scheduler::insert_waiting(Sequence* seq, Sequence* next) {
  Sequence* previous = next ? next->previous : waiting_.last;
  seq->previous = previous;
  seq->next = next;
  (previous ? previous->next : waiting_.next) = seq;
  (next ? next->previous : waiting_.last) = seq;
  ++num_waiting_;
}

void Scheduler::unlink_waiting(Sequence* seq) {
  (seq->previous ? seq->previous->next : waiting_.next) = seq->next;
  (seq->next ? seq->next->previous : waiting_.last) = seq->previous;
  seq->previous = seq->next = nullptr;
  --num_waiting_;
}

// The queue is always in order: a new sequence walks from the back (at once in place under fcfs), a preempted
// one, older than all that wait, ends up at the front.
void Scheduler::add(Sequence* seq) {
  Sequence* next = nullptr;
  if (seq->preemptions > 0) {
    for (next = waiting_.next; next && before(*next, *seq);) next = next->next;
  } else {
    for (Sequence* s = waiting_.last; s && before(*seq, *s); s = s->previous) next = s;
  }
  insert_waiting(seq, next);
}

void Scheduler::remove(Sequence* seq) {
  if (seq->running) {
    running_.erase(std::find(running_.begin(), running_.end(), seq));
    seq->running = false;
    kv_.release(*seq);
  } else {
    unlink_waiting(seq);
  }
}

// ---- planning

const StepPlan& Scheduler::plan(int64_t prefill_with_decodes, int64_t prefill_alone) {
  plan_.chunks.clear();
  plan_.outgrown.clear();
  plan_.tokens = plan_.prefill_tokens = plan_.prefix_queries = plan_.prefix_hits = 0;
  plan_.preempted = plan_.admitted = 0;
  Budget budget{config_.max_num_batched_tokens, prefill_alone, config_.max_prompt_logit_rows};
  plan_decodes(budget);
  if (plan_.tokens > 0) budget.prefill = prefill_with_decodes;
  plan_prefills(budget);
  std::erase_if(running_, [](const Sequence* seq) { return !seq->running; });
  for (const PlannedChunk& chunk : plan_.chunks)
    kv_.publish(*chunk.seq, chunk.first, chunk.first + chunk.count);
  if (plan_.preempted == 0 && plan_.outgrown.empty()) admit(budget);
  return plan_;
}

void Scheduler::plan_decodes(Budget& budget) {
  for (Sequence* seq : running_) {
    if (!seq->running || seq->len() - seq->computed != 1) continue;
    if (make_room(*seq, seq->len(), budget)) add_chunk(*seq, 1, budget);
  }
}

void Scheduler::plan_prefills(Budget& budget) {
  for (Sequence* seq : running_) {
    if (!seq->running || seq->len() - seq->computed <= 1) continue;
    int64_t count = chunk_tokens(*seq, budget);
    if (count > 0 && make_room(*seq, seq->computed + count, budget)) add_chunk(*seq, count, budget);
  }
}

int64_t Scheduler::chunk_tokens(const Sequence& seq, const Budget& budget) const {
  int64_t count = std::min({seq.len() - seq.computed, budget.tokens, budget.prefill, kv_.max_chunk()});
  if (config_.long_prefill_token_threshold > 0) count = std::min(count, config_.long_prefill_token_threshold);
  if (seq.all_logits) count = std::min(count, budget.rows);
  return count;
}

void Scheduler::add_chunk(Sequence& seq, int64_t count, Budget& budget) {
  bool decode = seq.len() - seq.computed == 1;
  bool samples = seq.computed + count == seq.len();
  plan_.chunks.push_back({&seq, seq.computed, static_cast<int32_t>(count), samples});
  plan_.tokens += count;
  budget.tokens -= count;
  if (decode) return;
  plan_.prefill_tokens += count;
  budget.prefill -= count;
  if (seq.all_logits) budget.rows -= count;
}

void Scheduler::admit(Budget& budget) {
  while (waiting_.next && num_running() < config_.max_num_seqs) {
    Sequence& seq = *waiting_.next;
    if (chunk_tokens(seq, budget) <= 0 || !try_admit(seq)) return;
    unlink_waiting(&seq);
    seq.running = true;
    running_.push_back(&seq);
    ++plan_.admitted;
    int64_t count = chunk_tokens(seq, budget);
    bool room = kv_.extend(seq, seq.computed, seq.computed + count);
    OCTAVO_CHECK(room, "sequence ", seq.id, " was admitted without room for its first chunk");
    add_chunk(seq, count, budget);
    kv_.publish(seq, seq.computed, seq.computed + count);
  }
}

// Admission must not thrash: what the prefills under way still need is spoken for, the whole of the new
// sequence must fit into the rest, and each running sequence keeps a block a group to grow into, or it would
// soon preempt the newcomer.
bool Scheduler::try_admit(Sequence& seq) {
  int64_t spoken_for = running_.empty() ? 0 : (num_running() + 1) * kv_.num_groups();
  for (const Sequence* other : running_) spoken_for += kv_.missing_blocks(*other);
  if (!running_.empty() && pool_.num_free() <= spoken_for) return false;
  int64_t hit = kv_.take_prefix(seq);
  if (kv_.missing_blocks(seq) > pool_.num_free() - spoken_for) {
    kv_.release(seq);
    return false;
  }
  seq.computed = hit;
  if (seq.cached < 0) {
    seq.cached = hit;
    if (seq.read_prefix_cache && kv_.prefix_caching()) {
      plan_.prefix_queries += seq.prompt_len;
      plan_.prefix_hits += hit;
    }
  }
  return true;
}

// ---- preemption

bool Scheduler::make_room(Sequence& seq, int64_t end, Budget& budget) {
  while (!kv_.extend(seq, seq.computed, end)) {
    Sequence* victim = pick_victim();
    if (victim == &seq &&
        std::count_if(running_.begin(), running_.end(), [](auto* s) { return s->running; }) == 1) {
      plan_.outgrown.push_back(&seq);
      return false;
    }
    preempt(*victim, budget);
    if (victim == &seq) return false;
  }
  return true;
}

Sequence* Scheduler::pick_victim() const {
  Sequence* victim = nullptr;
  for (Sequence* seq : running_) {
    if (!seq->running) continue;
    if (!victim || config_.policy == SchedulingPolicy::kFcfs || before(*victim, *seq)) victim = seq;
  }
  return victim;
}

void Scheduler::preempt(Sequence& victim, Budget& budget) {
  auto chunk = std::find_if(plan_.chunks.begin(), plan_.chunks.end(),
                            [&](const PlannedChunk& c) { return c.seq == &victim; });
  if (chunk != plan_.chunks.end()) {
    plan_.tokens -= chunk->count;
    budget.tokens += chunk->count;
    if (victim.len() - victim.computed > 1) {
      plan_.prefill_tokens -= chunk->count;
      budget.prefill += chunk->count;
      if (victim.all_logits) budget.rows += chunk->count;
    }
    plan_.chunks.erase(chunk);
  }
  victim.running = false;  // plan() takes it out of running_ after its passes
  ++victim.preemptions;
  ++plan_.preempted;
  kv_.release(victim);
  add(&victim);
}

// ---- after the step

void Scheduler::commit() {
  for (const PlannedChunk& chunk : plan_.chunks) chunk.seq->computed = chunk.first + chunk.count;
}

void Scheduler::discard_plan() {
  for (const PlannedChunk& chunk : plan_.chunks) kv_.unpublish(*chunk.seq, chunk.first);
}

}  // namespace octavo
