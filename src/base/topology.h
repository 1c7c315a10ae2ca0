// What of this machine we may use: CPUs (affinity, cpuset, hyper-threads, NUMA nodes, cgroup quota) and
// memory (cgroup limits, node memory). Everything is read from /proc and /sys below a root path, so that
// tests pose as other machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octavo {

struct Cpu {
  int id;    ///< the kernel's logical number
  int core;  ///< lowest logical number among its hyper-thread siblings
  int node;  ///< NUMA node
};

struct Machine {
  std::vector<Cpu> cpus;  ///< online and in our affinity mask (a cpuset narrows the mask), in rising id
  double quota = 0;  ///< CPUs' worth of time that the cgroups grant (the least of all levels); 0: no limit
  bool one_per_core =
      true;  ///< hyper-threads share the vector units: one worker a core. False on Arm, which has none.
};

/// `affinity`: the CPUs that sched_getaffinity would give, for tests; empty asks the kernel.
Machine read_machine(const std::string& root = "", std::vector<int> affinity = {});

/// "0-3,6" to sorted unique ids; throws Error that names `what` on anything else.
std::vector<int> parse_cpu_list(const std::string& text, const std::string& what);

struct BindingRequest {
  std::string spec =
      "auto";  ///< VLLM_CPU_OMP_THREADS_BIND: "auto", "nobind" or a list of CPUs a rank, "0-3,6|4-5"
  std::optional<int>
      reserved;  ///< VLLM_CPU_NUM_OF_RESERVED_CPU: CPUs kept free under "auto", all ranks together
  std::optional<int> threads;  ///< OMP_NUM_THREADS: workers of each rank under "nobind"
  int ranks = 1;               ///< Teams of this process (tensor parallel)
};

struct Binding {
  std::vector<std::vector<int>> ranks;  ///< one CPU a worker; never empty
  bool pin = true;
  std::string text;  ///< what was chosen and why, one line for the log
};

/// Throws Error on a spec that does not parse, names a CPU that we may not use, or has another number of
/// ranks.
///   auto    rank r takes the r-th node's physical cores (the last sibling of each, as vLLM does). More ranks
///   than nodes
///           share nodes. Never more workers than the quota's floor; a quota without a cpuset does not pin,
///           or all containers of a host would pin to the same first cores. Kept free by default: one core a
///           rank if a rank has more than 4 (vLLM: always one). On a small machine the core is worth more as
///           a worker: HTTP needs a few per cent of one, and workers that lose their core to it are helped
///           out by the others (team.h).
///   nobind  as many workers as auto without a reserve, or `threads`; the kernel places them.
///   lists   as given; nothing is reserved.
Binding parse_thread_binding(const BindingRequest& request, const Machine& machine);

struct MemoryLimits {
  int64_t total = 0;  ///< bytes of memory that we may ever use: nodes' or host's, cut by the cgroups' limits
  int64_t available = 0;  ///< bytes that we can take now: free or reclaimable in host, nodes and each cgroup
  std::string text;       ///< which limit ruled, for logs and errors
};

/// `nodes`: count only these nodes' memory (where the Team's CPUs are); empty: the whole host.
MemoryLimits available_memory(const std::vector<int>& nodes = {}, const std::string& root = "");

}  // namespace octavo
