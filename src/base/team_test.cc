#include "base/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace octavo {
namespace {

using Clock = std::chrono::steady_clock;

TeamOptions workers(int count, bool pin = false) {
  TeamOptions options;
  for (int i = 0; i < count; ++i) options.cpus.push_back(pin ? 0 : i);
  options.pin = pin;
  return options;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(Team, RunsEveryPieceOnce) {
  for (int size : {1, 2, 3, 8}) {
    Team team(workers(size));
    EXPECT_EQ(team.size(), size);
    for (int pieces : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<std::atomic<int>> hits(pieces);
      team.run(pieces, [&](int piece, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, size);
        hits[piece].fetch_add(1);
      });
      for (auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(Team, RunsMorePiecesThanAShareCanHold) {
  Team team(workers(2));
  const int pieces = (1 << 20) + 12345;
  std::vector<uint8_t> hits(pieces);
  team.run(pieces, [&](int piece, int) { ++hits[piece]; });
  EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), int64_t{0}), pieces);
}

// Plain writes of one run are read by others in the next: what a step does between ops. (TSan checks the
// ordering.)
TEST(Team, OrdersMemoryBetweenRuns) {
  Team team(workers(3));
  std::vector<int64_t> a(97, 1), b(97);
  for (int round = 0; round < 2000; ++round) {
    team.run(97, [&](int i, int) { b[i] = a[(i * 31 + 7) % 97] + 1; });
    team.run(97, [&](int i, int) { a[i] = b[(i * 17 + 3) % 97]; });
  }
  for (int64_t value : a) ASSERT_EQ(value, 2001);
}

// Runs of different lambdas and piece counts back to back: a late thief must not execute a piece of another
// run.
TEST(Team, NeverMixesRuns) {
  Team team(workers(4));
  for (int round = 0; round < 5000; ++round) {
    const int pieces = 1 + round % 9;
    std::atomic<int> sum{0};
    if (round % 2)
      team.run(pieces, [&sum](int piece, int) { sum += piece; });
    else
      team.run(pieces, [&sum, round](int, int) { sum += round; });
    ASSERT_EQ(sum.load(), round % 2 ? pieces * (pieces - 1) / 2 : pieces * round) << round;
  }
}

TEST(Team, OtherWorkersTakeOverUnstartedPieces) {
  Team team(workers(2));
  std::vector<int> worker_of(16, -1);
  std::atomic<bool> held{false};
  team.run(16, [&](int piece, int worker) {
    worker_of[piece] = worker;
    if (worker == 1) {
      held = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // as if its core had been taken away
    } else {
      while (!held) std::this_thread::yield();
    }
  });
  EXPECT_EQ(std::count(worker_of.begin(), worker_of.end(), 1), 1);
}

// The caller sleeps while another holds the last piece, and wakes for it.
TEST(Team, CallerSleepsThroughALongPiece) {
  Team team(workers(2));
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> started{0}, hits{0};
    team.run(2, [&](int, int worker) {
      ++started;
      while (started < 2) std::this_thread::yield();  // one piece each
      if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++hits;
    });
    ASSERT_EQ(hits.load(), 2);
  }
}

TEST(Team, WorksWithTwoWorkersOnOneCpu) {
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  {
    Team team(workers(2, true));
    team.bind_caller();
    const auto start = Clock::now();
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> hits{0};
      team.run(8, [&](int, int) { ++hits; });
      ASSERT_EQ(hits.load(), 8);
    }
    EXPECT_LT(seconds_since(start), 4.0);
  }
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Team, IdleTeamUsesNoCpu) {
  Team team(workers(3));
  std::atomic<int> hits{0};
  team.run(3, [&](int, int) { ++hits; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto cpu_time = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double before = cpu_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_time() - before, 0.003);  // under 1 % of a core
  team.run(3, [&](int, int) { ++hits; });
  EXPECT_EQ(hits.load(), 6);
}

}  // namespace
}  // namespace octavo
