// Scripts of arrivals in, plans out. Blocks of 4 tokens unless said.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>

#include "base/error.h"
#include "engine/sampler.h"

namespace octavo {
namespace {

struct Script {
  explicit Script(int32_t num_blocks,
                  SchedulerConfig config = {.max_num_batched_tokens = 16, .max_num_seqs = 4},
                  std::vector<int64_t> windows = {0})
      : pool(num_blocks),
        kv(pool,
           {.windows = windows, .block_size = 4, .max_chunk = config.max_num_batched_tokens, .max_len = 100}),
        scheduler(config, kv, pool) {}

  /// A sequence of `len` tokens that no other shares, or those given.
  Sequence* add(uint64_t id, int64_t len, int32_t priority = 0) {
    std::vector<int32_t> tokens(len);
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(id * 1000));
    return add(id, tokens, priority);
  }
  Sequence* add(uint64_t id, std::vector<int32_t> tokens, int32_t priority = 0) {
    Sequence& seq = sequences.emplace_back();
    seq.id = id;
    seq.priority = priority;
    seq.arrival_order = sequences.size();
    seq.tokens = std::move(tokens);
    seq.prompt_len = seq.len();
    seq.max_len = 1000;
    seq.blocks.resize(kv.num_groups());
    seq.first_block.resize(kv.num_groups());
    scheduler.add(&seq);
    return &seq;
  }

  /// Plans and commits a step; each sequence that samples gets a token. "1:0+16 2:0+3s": id, first token,
  /// count, samples.
  template <class... Limits>
  std::string step(Limits... limits) {
    const StepPlan& plan = scheduler.plan(limits...);
    std::string text;
    for (const PlannedChunk& c : plan.chunks)
      text += str(text.empty() ? "" : " ", c.seq->id, ":", c.first, "+", c.count, c.samples ? "s" : "");
    for (Sequence* seq : plan.outgrown) text += str(text.empty() ? "" : " ", seq->id, " outgrown");
    preempted += plan.preempted;
    hits += plan.prefix_hits;
    queries += plan.prefix_queries;
    scheduler.commit();
    for (const PlannedChunk& c : plan.chunks)
      if (c.samples) c.seq->tokens.push_back(static_cast<int32_t>(c.seq->id * 1000 + 500 + c.seq->len()));
    for (Sequence* seq : plan.outgrown) scheduler.remove(seq);
    return text;
  }

  BlockPool pool;
  KvBlocks kv;
  Scheduler scheduler;
  std::deque<Sequence> sequences;
  int64_t preempted = 0, hits = 0, queries = 0;
};

TEST(Scheduler, PrefillsFillWhatDecodesLeave) {
  Script s(100);
  s.add(1, 5);
  s.add(2, 20);
  s.add(3, 3);
  EXPECT_EQ(s.step(), "1:0+5s 2:0+11");
  EXPECT_EQ(s.step(), "1:5+1s 2:11+9s 3:0+3s");
  EXPECT_EQ(s.step(), "1:6+1s 2:20+1s 3:3+1s");
  EXPECT_EQ(s.scheduler.num_running(), 3);
}

TEST(Scheduler, MaxNumSeqs) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 2});
  Sequence* first = s.add(1, 3);
  s.add(2, 3);
  s.add(3, 3);
  EXPECT_EQ(s.step(), "1:0+3s 2:0+3s");
  EXPECT_EQ(s.step(), "1:3+1s 2:3+1s");
  s.scheduler.remove(first);
  EXPECT_EQ(s.step(), "2:4+1s 3:0+3s");
}

TEST(Scheduler, LongPrefillThresholdLetsOthersIn) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 4, .long_prefill_token_threshold = 6});
  s.add(1, 30);
  s.add(2, 4);
  EXPECT_EQ(s.step(), "1:0+6 2:0+4s");
  EXPECT_EQ(s.step(), "2:4+1s 1:6+6");
}

TEST(Scheduler, PrefillIsPacedWhileOthersDecode) {
  Script s(100);
  s.add(1, 3);
  EXPECT_EQ(s.step(5, 12), "1:0+3s");
  s.add(2, 40);
  EXPECT_EQ(s.step(5, 12), "1:3+1s 2:0+5");
  EXPECT_EQ(s.step(5, 12), "1:4+1s 2:5+5");
  s.scheduler.remove(&s.sequences[0]);
  EXPECT_EQ(s.step(5, 12), "2:10+12");
}

TEST(Scheduler, PriorityOrdersTheQueue) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 1, .policy = SchedulingPolicy::kPriority});
  s.add(1, 3, 5);
  s.add(2, 3, 1);
  s.add(3, 3, 1);
  s.add(4, 3, 0);
  for (uint64_t id : {4, 2, 3, 1}) {
    EXPECT_EQ(s.step(), str(id, ":0+3s"));
    s.scheduler.remove(s.scheduler.running()[0]);
  }
}

TEST(Scheduler, FcfsIgnoresPriority) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 1});
  s.add(1, 3, 5);
  s.add(2, 3, 1);
  EXPECT_EQ(s.step(), "1:0+3s");
}

// 6 blocks of 4: sequence 1 holds 2 blocks and may grow by one, so 2 (12 tokens, 3 blocks) fits, not 16
// tokens.
TEST(Scheduler, AdmissionKeepsRoomToGrow) {
  Script s(6);
  s.add(1, 7);
  EXPECT_EQ(s.step(), "1:0+7s");
  s.add(2, 13);
  EXPECT_EQ(s.step(), "1:7+1s");
  s.scheduler.remove(&s.sequences[1]);
  s.add(3, 8);
  EXPECT_EQ(s.step(), "1:8+1s");  // 3 blocks held: 2 more for growth of both leave 1
  EXPECT_EQ(s.preempted, 0);
}

TEST(Scheduler, PrefillsUnderWayAreSpokenFor) {
  Script s(12);
  s.add(1, 32);  // 8 blocks, of which the first step takes 4
  s.add(2, 16);
  EXPECT_EQ(s.step(), "1:0+16");
  EXPECT_EQ(s.step(), "1:16+16s");  // 2 would have fitted into the free blocks, not beside the rest of 1
  EXPECT_EQ(s.step(), "1:32+1s");
  EXPECT_EQ(s.preempted, 0);
}

TEST(Scheduler, PreemptsTheLastAndPutsItFirstInLine) {
  Script s(6);
  s.add(1, 8);
  s.add(2, 7);
  s.add(3, 8);
  EXPECT_EQ(s.step(), "1:0+8s 2:0+7s");
  EXPECT_EQ(s.step(), "1:8+1s 2:7+1s");
  EXPECT_EQ(s.step(), "1:9+1s 2:8+1s");  // all 6 blocks are taken
  EXPECT_EQ(s.step(), "1:10+1s 2:9+1s");
  EXPECT_EQ(s.step(), "1:11+1s 2:10+1s");
  EXPECT_EQ(s.step(), "1:12+1s");
  EXPECT_EQ(s.preempted, 1);
  EXPECT_EQ(s.scheduler.first_waiting()->id, 2u);
  EXPECT_EQ(s.scheduler.first_waiting()->next->id, 3u);
  EXPECT_EQ(s.sequences[1].preemptions, 1);
}

TEST(Scheduler, PriorityPreemptsTheLeastUrgent) {
  Script s(6, {.max_num_batched_tokens = 16, .max_num_seqs = 4, .policy = SchedulingPolicy::kPriority});
  s.add(1, 5, 9);
  EXPECT_EQ(s.step(), "1:0+5s");
  s.add(2, 5, 0);
  std::string text;
  for (int i = 0; i < 20 && s.preempted == 0; ++i) text = s.step();
  EXPECT_EQ(s.preempted, 1);
  EXPECT_EQ(s.scheduler.first_waiting()->id, 1u);
  EXPECT_EQ(text.find("1:"), std::string::npos);
}

TEST(Scheduler, NobodyIsAdmittedInAStepThatPreempted) {
  Script s(4);
  s.add(1, 4);
  s.add(2, 4);
  for (int i = 0; i < 12; ++i) {
    s.step();
    if (s.preempted) break;
  }
  // Whatever was planned, it was planned for one sequence alone.
  EXPECT_LE(s.scheduler.num_running(), 1);
}

TEST(Scheduler, OutgrowsThePoolAlone) {  // BL-24
  Script s(2);
  s.add(1, 5);
  EXPECT_EQ(s.step(), "1:0+5s");
  EXPECT_EQ(s.step(), "1:5+1s");
  EXPECT_EQ(s.step(), "1:6+1s");
  EXPECT_EQ(s.step(), "1:7+1s");
  EXPECT_EQ(s.step(), "1 outgrown");
  EXPECT_EQ(s.pool.num_free(), 2);
}

TEST(Scheduler, PromptLogprobsAreChunkedByRows) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 4, .max_prompt_logit_rows = 6});
  Sequence* seq = s.add(1, 8);
  seq->all_logits = true;
  s.add(2, 20);
  EXPECT_EQ(s.step(), "1:0+6 2:0+10");
  EXPECT_EQ(s.step(), "1:6+2s 2:10+10s");
}

TEST(Scheduler, SecondRequestReusesTheFirstOnesBlocks) {
  Script s(100);
  std::vector<int32_t> prompt(12);
  std::iota(prompt.begin(), prompt.end(), 0);
  s.add(1, prompt);
  EXPECT_EQ(s.step(), "1:0+12s");
  s.scheduler.remove(&s.sequences[0]);
  EXPECT_EQ(s.pool.num_free(), 100);
  s.add(2, prompt);
  EXPECT_EQ(s.step(), "2:8+4s");  // the last block is computed again: its last token must give logits
  EXPECT_EQ(s.hits, 8);
  EXPECT_EQ(s.queries, 24);
  prompt.resize(14, 7);
  s.add(3, prompt);
  EXPECT_EQ(s.step(), "2:12+1s 3:12+2s");
}

// n children of one prompt: the first one's blocks are findable in the very step that computes them.
TEST(Scheduler, SiblingsShareWithinAStep) {
  Script s(100);
  std::vector<int32_t> prompt(10, 3);
  for (uint64_t id = 1; id <= 4; ++id) s.add(id, prompt);
  EXPECT_EQ(s.step(), "1:0+10s 2:8+2s 3:8+2s 4:8+2s");
  EXPECT_EQ(s.kv.block_size(), 4);
  EXPECT_EQ(s.pool.num_free(), 100 - 2 - 4);  // 2 shared, a partial one each
}

TEST(Scheduler, AFailedStepLeavesNothingInThePrefixCache) {
  Script s(100);
  s.add(1, std::vector<int32_t>(12, 3));
  s.scheduler.plan();
  s.scheduler.discard_plan();
  s.scheduler.remove(&s.sequences[0]);
  s.add(2, std::vector<int32_t>(12, 3));
  EXPECT_EQ(s.step(), "2:0+12s");
}

TEST(Scheduler, PreemptedSequenceFindsItsOwnBlocks) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 4});
  Sequence* seq = s.add(1, 10);
  s.step();
  s.step();
  s.kv.release(*seq);  // as a preemption does
  s.scheduler.remove(seq);
  ++seq->preemptions;
  s.scheduler.add(seq);
  EXPECT_EQ(s.step(), "1:8+4s");
  EXPECT_EQ(s.queries, 10);  // counted at the first admission only
}

TEST(Scheduler, SlidingWindowGivesBackWhatIsOutOfSight) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 4}, {6});
  Sequence* seq = s.add(1, 40);
  s.step();
  EXPECT_EQ(seq->blocks[0].size(), 4u);
  s.step();  // first token 16 sees from 11 on: block 2 stays
  EXPECT_EQ(seq->blocks[0],
            (std::vector<int32_t>{-1, -1, seq->blocks[0][2], seq->blocks[0][3], seq->blocks[0][4],
                                  seq->blocks[0][5], seq->blocks[0][6], seq->blocks[0][7]}));
  for (int i = 0; i < 40; ++i) s.step();
  EXPECT_LE(100 - s.pool.num_free(), 3);  // 6 tokens touch at most 3 blocks
}

TEST(Scheduler, SlidingGroupsNeedOnlyTheirWindowForAHit) {
  Script s(100, {.max_num_batched_tokens = 64, .max_num_seqs = 4}, {6});
  std::vector<int32_t> prompt(41);
  std::iota(prompt.begin(), prompt.end(), 0);
  s.add(1, prompt);
  s.step();
  s.scheduler.remove(&s.sequences[0]);
  for (int32_t block = 0; block < 8; ++block) s.pool.unpublish(block);
  Sequence* second = s.add(2, prompt);
  EXPECT_EQ(s.step(), "2:40+1s");
  EXPECT_EQ(second->blocks[0][7], -1);
  EXPECT_GE(second->blocks[0][8], 0);
}

TEST(Scheduler, FullAndSlidingGroupsTogether) {
  Script s(100, {.max_num_batched_tokens = 16, .max_num_seqs = 4}, {0, 6});
  Sequence* seq = s.add(1, 40);
  for (int i = 0; i < 3; ++i) s.step();
  EXPECT_EQ(seq->blocks[0].size(), 10u);
  EXPECT_EQ(seq->first_block[0], 0);
  EXPECT_EQ(seq->first_block[1], 6);  // token 32 sees from 27 on
  std::vector<int32_t> prompt(seq->tokens.begin(), seq->tokens.begin() + 40);
  s.add(2, prompt);
  EXPECT_EQ(s.step(), "1:40+1s 2:36+4s");
}

TEST(Scheduler, TinyPoolWithWindowShortensChunks) {
  Script s(4, {.max_num_batched_tokens = 16, .max_num_seqs = 1}, {6});
  s.add(1, 30);
  for (int i = 0; i < 60; ++i) EXPECT_NE(s.step().find("1:"), std::string::npos);
  EXPECT_EQ(s.preempted, 0);
}

}  // namespace
}  // namespace octavo
