#include "base/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

/// A fake root with chosen files of /proc and /sys.
class FakeTree : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() /
            ("octavo_topology_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
             std::to_string(getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string root() const { return root_.string(); }

  /// `cores` cores of `threads` threads on each of `nodes` nodes; siblings numbered as Intel does: core, core
  /// + all cores.
  void machine(int nodes, int cores, int threads) {
    const int all = nodes * cores;
    write("sys/devices/system/cpu/online", "0-" + std::to_string(all * threads - 1) + "\n");
    write("sys/devices/system/node/online", nodes == 1 ? "0\n" : "0-" + std::to_string(nodes - 1) + "\n");
    for (int n = 0; n < nodes; ++n) {
      std::string list;
      for (int t = 0; t < threads; ++t)
        list += (t ? "," : "") + std::to_string(t * all + n * cores) + "-" +
                std::to_string(t * all + (n + 1) * cores - 1);
      write("sys/devices/system/node/node" + std::to_string(n) + "/cpulist", list + "\n");
    }
    for (int cpu = 0; cpu < all * threads; ++cpu) {
      std::string siblings = std::to_string(cpu % all);
      for (int t = 1; t < threads; ++t) siblings += "," + std::to_string(cpu % all + t * all);
      write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            siblings + "\n");
    }
  }
  void cgroup2(const std::string& path) {
    write("proc/self/cgroup", "0::" + path + "\n");
    write("proc/self/mountinfo",
          "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// One rank's CPUs and text under `spec`.
  Binding bind(int cpus, const std::string& spec = "auto", std::optional<int> reserved = {}, int ranks = 1) {
    std::vector<int> affinity(cpus);
    std::iota(affinity.begin(), affinity.end(), 0);
    return parse_thread_binding({spec, reserved, {}, ranks}, read_machine(root(), affinity));
  }

  fs::path root_;
};

using Ranks = std::vector<std::vector<int>>;

TEST_F(FakeTree, TwoCoresAreBothUsed) {
  machine(1, 2, 1);
  const Binding b = bind(2);
  EXPECT_EQ(b.ranks, (Ranks{{0, 1}}));
  EXPECT_TRUE(b.pin);
  EXPECT_EQ(bind(2, "auto", 1).ranks, (Ranks{{0}}));
  const Binding all = bind(2, "auto", 2);
  EXPECT_EQ(all.ranks, (Ranks{{0, 1}}));
  EXPECT_NE(all.text.find("WARNING"), std::string::npos) << all.text;
}

TEST_F(FakeTree, OneWorkerACoreLastSiblingOneKeptFree) {
  machine(1, 8, 2);
  EXPECT_EQ(bind(16).ranks, (Ranks{{8, 9, 10, 11, 12, 13, 14}}));
  EXPECT_EQ(bind(16, "auto", 0).ranks, (Ranks{{8, 9, 10, 11, 12, 13, 14, 15}}));
  Machine arm = read_machine(root(), {0, 1, 8, 9});
  arm.one_per_core = false;
  EXPECT_EQ(parse_thread_binding({}, arm).ranks, (Ranks{{0, 1, 8, 9}}));
}

TEST_F(FakeTree, RankTakesItsNodeAndRanksShareNodes) {
  machine(2, 6, 1);
  EXPECT_EQ(bind(12).ranks, (Ranks{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(bind(12, "auto", {}, 2).ranks, (Ranks{{0, 1, 2, 3, 4}, {6, 7, 8, 9, 10}}));
  EXPECT_EQ(bind(12, "auto", 3, 2).ranks, (Ranks{{0, 1, 2, 3, 4}, {6, 7, 8, 9}}));
  EXPECT_EQ(bind(12, "auto", 0, 4).ranks, (Ranks{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}));
  EXPECT_THROW(bind(12, "auto", 0, 13), Error);
}

TEST_F(FakeTree, AffinityAndOfflineCpusAreHonoured) {
  machine(2, 4, 1);
  write("sys/devices/system/cpu/online", "0-2,4-7\n");
  EXPECT_EQ(parse_thread_binding({}, read_machine(root(), {2, 3})).ranks, (Ranks{{2}}));
  EXPECT_EQ(parse_thread_binding({}, read_machine(root(), {5, 6})).ranks, (Ranks{{5, 6}}));
  write("proc/self/status", "Name:\tx\nMems_allowed:\t2\nMems_allowed_list:\t1\n");
  EXPECT_EQ(bind(8).ranks, (Ranks{{4, 5, 6, 7}}));
}

TEST_F(FakeTree, MissingFilesLeaveOneNodeAndNoSiblings) {
  EXPECT_EQ(bind(3).ranks, (Ranks{{0, 1, 2}}));
  EXPECT_EQ(read_machine(root(), {0}).quota, 0);
}

// BL-43: the quota's floor, of the tightest level, v1 and v2; a fraction still gets one worker.
TEST_F(FakeTree, QuotaOfCgroupV2IncludingParents) {
  machine(1, 8, 1);
  cgroup2("/kubepods/pod1/box");
  write("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/kubepods/pod1/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/kubepods/cpu.max", "600000 100000\n");
  const Binding b = bind(8);
  EXPECT_EQ(b.ranks, (Ranks{{0, 1}}));
  EXPECT_FALSE(b.pin);
  EXPECT_NE(b.text.find("quota of 2.5"), std::string::npos) << b.text;
  write("sys/fs/cgroup/kubepods/pod1/box/cpu.max", "50000 100000\n");
  EXPECT_EQ(bind(8).ranks, (Ranks{{0}}));
  EXPECT_EQ(bind(8, "nobind").ranks, (Ranks{{0}}));
}

TEST_F(FakeTree, QuotaOfCgroupV1InAContainersOwnMount) {
  machine(1, 8, 1);
  write("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n0::/\n");
  write("proc/self/mountinfo",
        "33 31 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(bind(8).ranks, (Ranks{{0, 1, 2}}));
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(bind(8).ranks[0].size(), 7u);
}

TEST_F(FakeTree, CpusetNarrowerThanTheQuotaKeepsPinning) {
  machine(1, 8, 1);
  cgroup2("/");
  write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  const Binding b = parse_thread_binding({}, read_machine(root(), {6, 7}));
  EXPECT_EQ(b.ranks, (Ranks{{6, 7}}));
  EXPECT_TRUE(b.pin);
}

TEST_F(FakeTree, ExplicitLists) {
  machine(1, 8, 1);
  EXPECT_EQ(bind(8, "5,2-4").ranks, (Ranks{{2, 3, 4, 5}}));
  EXPECT_EQ(bind(8, "0-3,6|4-5", {}, 2).ranks, (Ranks{{0, 1, 2, 3, 6}, {4, 5}}));
  EXPECT_EQ(bind(8, "1,1,1").ranks, (Ranks{{1}}));
  for (const char* bad :
       {"", "|", "0-", "-1", "3-1", "0,,1", "0,", "a", "0 1", "0x1", "99999999999", "8", "Auto"})
    EXPECT_THROW(bind(8, bad), Error) << bad;
  EXPECT_THROW(bind(8, "0-1|2-3"), Error);
  EXPECT_THROW(bind(8, "0-2|2-3", {}, 2), Error);
  try {
    bind(8, "0-9");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "VLLM_CPU_OMP_THREADS_BIND: CPU 8 is offline or outside this process's affinity");
  }
}

TEST_F(FakeTree, NobindTakesOmpNumThreads) {
  machine(1, 8, 2);
  Binding b = parse_thread_binding({"nobind", {}, 3, 1}, read_machine(root(), {0, 1, 8, 9}));
  EXPECT_EQ(b.ranks[0].size(), 3u);
  EXPECT_FALSE(b.pin);
  EXPECT_EQ(bind(16, "nobind").ranks[0].size(), 8u);
}

constexpr int64_t kMiB = 1 << 20;

TEST_F(FakeTree, MemoryOfHostNodeAndCgroup) {
  write("proc/meminfo", "MemTotal:  1048576 kB\nMemFree: 10 kB\nMemAvailable:   524288 kB\n");
  MemoryLimits m = available_memory({}, root());
  EXPECT_EQ(m.total, 1024 * kMiB);
  EXPECT_EQ(m.available, 512 * kMiB);

  write("sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal:  409600 kB\nNode 1 MemFree:  102400 kB\nNode 1 Active(file): 51200 kB\n"
        "Node 1 Inactive(file): 51200 kB\nNode 1 SReclaimable: 0 kB\n");
  m = available_memory({1}, root());
  EXPECT_EQ(m.total, 400 * kMiB);
  EXPECT_EQ(m.available, 200 * kMiB);

  // BL-44: the limit may stand on a parent; page cache inside the group is ours to reclaim.
  cgroup2("/slice/box");
  write("sys/fs/cgroup/slice/box/memory.max", "max\n");
  write("sys/fs/cgroup/slice/memory.max", std::to_string(300 * kMiB));
  write("sys/fs/cgroup/slice/memory.current", std::to_string(250 * kMiB));
  write("sys/fs/cgroup/slice/memory.stat", "anon 1\ninactive_file " + std::to_string(40 * kMiB) +
                                               "\nactive_file " + std::to_string(10 * kMiB) + "\n");
  m = available_memory({}, root());
  EXPECT_EQ(m.total, 300 * kMiB);
  EXPECT_EQ(m.available, 100 * kMiB);
  EXPECT_EQ(m.text, "100 MiB available of 300 MiB (cgroup memory limit)");
}

TEST_F(FakeTree, MemoryOfCgroupV1KnowsTheUnlimitedSentinel) {
  write("proc/meminfo", "MemTotal:  1048576 kB\nMemAvailable:   524288 kB\n");
  write("proc/self/cgroup", "4:memory:/a/b\n");
  write("proc/self/mountinfo", "33 31 0:28 / /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available_memory({}, root()).total, 1024 * kMiB);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(128 * kMiB));
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(200 * kMiB));
  write("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file " + std::to_string(100 * kMiB) + "\n");
  const MemoryLimits m = available_memory({}, root());
  EXPECT_EQ(m.total, 128 * kMiB);
  EXPECT_EQ(m.available, 28 * kMiB);
}

TEST(Topology, ThisMachineHasCpusAndMemory) {
  const Machine machine = read_machine();
  EXPECT_FALSE(machine.cpus.empty());
  EXPECT_FALSE(parse_thread_binding({}, machine).ranks[0].empty());
  const MemoryLimits memory = available_memory();
  EXPECT_GT(memory.available, 0);
  EXPECT_LE(memory.available, memory.total);
}

}  // namespace
}  // namespace octavo
