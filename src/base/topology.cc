#include "base/topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/cgroup.h"
#include "base/error.h"

namespace octavo {
namespace {

constexpr int kMaxCpu = 8191;

std::vector<int> kernel_affinity() {
  cpu_set_t* set = CPU_ALLOC(kMaxCpu + 1);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxCpu + 1);
  std::vector<int> out;
  if (sched_getaffinity(0, bytes, set) == 0)
    for (int cpu = 0; cpu <= kMaxCpu; ++cpu)
      if (CPU_ISSET_S(cpu, bytes, set)) out.push_back(cpu);
  CPU_FREE(set);
  return out;
}

/// A CPU or node list file of the kernel; empty if it is missing.
std::vector<int> read_list(const std::string& path) {
  std::string text = read_text(path);
  text.erase(
      std::remove_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == ' ' || c == '\t'; }),
      text.end());
  return text.empty() ? std::vector<int>{} : parse_cpu_list(text, path);
}

std::string line_of(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (const size_t at = line.find(key); at != std::string::npos) return line.substr(at + key.size());
  return "";
}

bool has(const std::vector<int>& list, int value) {
  return std::binary_search(list.begin(), list.end(), value);
}

std::string list_text(const std::vector<int>& cpus) {  // "0-3,6"
  std::string out;
  for (size_t i = 0; i < cpus.size();) {
    size_t j = i;
    while (j + 1 < cpus.size() && cpus[j + 1] == cpus[j] + 1) ++j;
    out += (i ? "," : "") + std::to_string(cpus[i]) + (j > i ? "-" + std::to_string(cpus[j]) : "");
    i = j + 1;
  }
  return out;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text, const std::string& what) {
  std::set<int> out;
  size_t at = 0;
  auto fail = [&] { throw Error(what, ": '", text, "' is not a list of CPUs such as 0-3,6"); };
  auto number = [&] {
    const size_t start = at;
    int value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= kMaxCpu; ++at)
      value = value * 10 + (text[at] - '0');
    if (at == start || value > kMaxCpu) fail();
    return value;
  };
  do {
    const int first = number();
    int last = first;
    if (at < text.size() && text[at] == '-') ++at, last = number();
    if (last < first) fail();
    for (int cpu = first; cpu <= last; ++cpu) out.insert(cpu);
  } while (at < text.size() && text[at++] == ',');
  if (at != text.size() || text.back() == ',') fail();
  return {out.begin(), out.end()};
}

Machine read_machine(const std::string& root, std::vector<int> affinity) {
  const std::string cpu_root = root + "/sys/devices/system/cpu",
                    node_root = root + "/sys/devices/system/node";
  if (affinity.empty()) affinity = kernel_affinity();
  const std::vector<int> online = read_list(cpu_root + "/online");
  std::map<int, int> node_of;
  for (int node : read_list(node_root + "/online"))
    for (int cpu : read_list(str(node_root, "/node", node, "/cpulist"))) node_of[cpu] = node;

  Machine machine;
  for (int id : affinity) {
    if (!online.empty() && !has(online, id)) continue;
    const std::vector<int> siblings = read_list(str(cpu_root, "/cpu", id, "/topology/thread_siblings_list"));
    machine.cpus.push_back(
        {id, siblings.empty() ? id : siblings.front(), node_of.count(id) ? node_of[id] : 0});
  }
  if (machine.cpus.empty()) machine.cpus.push_back({0, 0, 0});  // no /proc, no /sys: one worker always works

  // CPUs of nodes whose memory we may not use would read everything from afar; unless there are no others.
  std::string allowed = line_of(read_text(root + "/proc/self/status"), "Mems_allowed_list:");
  allowed.erase(std::remove_if(allowed.begin(), allowed.end(), [](char c) { return c == '\t' || c == ' '; }),
                allowed.end());
  if (!allowed.empty()) {
    const std::vector<int> nodes = parse_cpu_list(allowed, root + "/proc/self/status");
    std::vector<Cpu> near;
    for (const Cpu& cpu : machine.cpus)
      if (has(nodes, cpu.node)) near.push_back(cpu);
    if (!near.empty()) machine.cpus = near;
  }
  machine.quota = cgroup_cpu_quota(root);
#if defined(__aarch64__)
  machine.one_per_core = false;
#endif
  return machine;
}

namespace {

/// Workers' CPUs of each node, one a core: the sibling with the highest id, so that low ids stay for the rest
/// of the system.
std::vector<std::vector<int>> cores_by_node(const Machine& machine) {
  std::map<int, std::map<int, int>> nodes;  // node -> core -> CPU
  for (const Cpu& cpu : machine.cpus) nodes[cpu.node][machine.one_per_core ? cpu.core : cpu.id] = cpu.id;
  std::vector<std::vector<int>> out;
  for (auto& [node, cores] : nodes) {
    out.emplace_back();
    for (auto& [core, cpu] : cores) out.back().push_back(cpu);
    std::sort(out.back().begin(), out.back().end());
  }
  return out;
}

/// Deals nodes to ranks: rank r the r-th node; with fewer nodes than ranks, ranks share a node in equal
/// parts.
std::vector<std::vector<int>> deal(const std::vector<std::vector<int>>& nodes, int ranks) {
  std::vector<std::vector<int>> out(ranks);
  const int count = static_cast<int>(nodes.size());
  for (int node = 0; node < std::min(count, ranks); ++node) {
    const int first = ranks <= count ? node : ranks * node / count;
    const int last = ranks <= count ? node + 1 : ranks * (node + 1) / count;
    const int64_t cpus = static_cast<int64_t>(nodes[node].size());
    for (int r = first; r < last; ++r)
      out[r].assign(nodes[node].begin() + cpus * (r - first) / (last - first),
                    nodes[node].begin() + cpus * (r - first + 1) / (last - first));
  }
  for (const auto& rank : out)
    if (rank.empty())
      throw Error("tensor parallel size ", ranks, " is more than the cores that this process may use");
  return out;
}

size_t total(const std::vector<std::vector<int>>& ranks) {
  size_t count = 0;
  for (const auto& rank : ranks) count += rank.size();
  return count;
}

/// Takes `count` CPUs from the ranks' ends, evenly, the last ranks first; every rank keeps one.
void take(std::vector<std::vector<int>>& ranks, size_t count) {
  while (count > 0) {
    auto largest = ranks.begin();
    for (auto it = ranks.begin(); it != ranks.end(); ++it)
      if (it->size() >= largest->size()) largest = it;
    if (largest->size() <= 1) return;
    largest->pop_back();
    --count;
  }
}

std::string describe(const Binding& binding) {
  std::string out = str(total(binding.ranks), " workers on CPUs ");
  for (size_t r = 0; r < binding.ranks.size(); ++r) out += (r ? "|" : "") + list_text(binding.ranks[r]);
  return binding.pin ? out : str(total(binding.ranks), " workers, not pinned");
}

Binding bind_lists(const BindingRequest& request, const Machine& machine) {
  const std::string what = "VLLM_CPU_OMP_THREADS_BIND";
  Binding binding;
  std::set<int> used;
  for (size_t at = 0; at <= request.spec.size();) {
    const size_t bar = std::min(request.spec.find('|', at), request.spec.size());
    binding.ranks.push_back(parse_cpu_list(request.spec.substr(at, bar - at), what));
    at = bar + 1;
    for (int id : binding.ranks.back()) {
      if (std::none_of(machine.cpus.begin(), machine.cpus.end(),
                       [&](const Cpu& cpu) { return cpu.id == id; }))
        throw Error(what, ": CPU ", id, " is offline or outside this process's affinity");
      if (!used.insert(id).second) throw Error(what, ": CPU ", id, " is given to two ranks");
    }
  }
  if (static_cast<int>(binding.ranks.size()) != request.ranks)
    throw Error(what, ": ", binding.ranks.size(), " lists of CPUs for ", request.ranks, " ranks");
  binding.text = describe(binding) + ", as listed";
  if (machine.quota > 0 && static_cast<double>(total(binding.ranks)) > machine.quota)
    binding.text +=
        str("; WARNING: more than the cgroup quota of ", machine.quota, " CPUs, expect throttling");
  return binding;
}

void apply_quota(const Machine& machine, Binding& binding) {
  if (machine.quota <= 0) return;
  const size_t limit = std::max<size_t>(1, static_cast<size_t>(std::floor(machine.quota)));
  if (total(binding.ranks) <= limit) return;
  take(binding.ranks, total(binding.ranks) - limit);
  // Containers with a quota but no cpuset all see CPU 0 first: pinned, they would crowd the same cores.
  binding.pin = false;
  binding.text += str(", cut to the cgroup quota of ", machine.quota, " CPUs");
}

constexpr size_t kSmallRank = 4;  // cores up to which a rank gives none away

}  // namespace

Binding parse_thread_binding(const BindingRequest& request, const Machine& machine) {
  OCTAVO_CHECK(request.ranks >= 1);
  if (request.reserved && *request.reserved < 0)
    throw Error("VLLM_CPU_NUM_OF_RESERVED_CPU: must not be negative");
  if (request.spec != "auto" && request.spec != "nobind") return bind_lists(request, machine);

  Binding binding;
  const std::vector<std::vector<int>> nodes = cores_by_node(machine);
  binding.ranks = deal(nodes, request.ranks);
  if (request.spec == "nobind") {
    binding.pin = false;
    binding.text = ", nobind";
    if (request.threads) {
      if (*request.threads < 1) throw Error("OMP_NUM_THREADS: must be at least 1");
      for (auto& rank : binding.ranks) rank.resize(*request.threads, rank.back());
      binding.text += ", OMP_NUM_THREADS";
    } else {
      apply_quota(machine, binding);
    }
    binding.text = describe(binding) + binding.text;
    return binding;
  }
  const size_t usable = total(binding.ranks);
  binding.text = str(", auto: one a ", machine.one_per_core ? "physical core" : "CPU", " of ",
                     std::min<size_t>(nodes.size(), request.ranks), " of ", nodes.size(), " NUMA nodes");
  size_t reserve = 0;
  if (request.reserved)
    reserve = static_cast<size_t>(*request.reserved);
  else
    for (const auto& rank : binding.ranks) reserve += rank.size() > kSmallRank;
  if (reserve >= usable) {
    binding.text +=
        str("; WARNING: VLLM_CPU_NUM_OF_RESERVED_CPU ", reserve, " would leave no worker and is ignored");
  } else if (reserve > 0) {
    take(binding.ranks, reserve);
    binding.text += str(", ", usable - total(binding.ranks), " kept free for the server");
  }
  apply_quota(machine, binding);
  binding.text = describe(binding) + binding.text;
  return binding;
}

namespace {

int64_t kilobytes(const std::string& meminfo, const std::string& key) {
  return std::strtoll(line_of(meminfo, key + ":").c_str(), nullptr, 10) * 1024;
}

}  // namespace

MemoryLimits available_memory(const std::vector<int>& nodes, const std::string& root) {
  const std::string host = read_text(root + "/proc/meminfo");
  MemoryLimits out{kilobytes(host, "MemTotal"), kilobytes(host, "MemAvailable"), "host memory"};
  auto limit = [&](int64_t total_bytes, int64_t available, const std::string& name) {
    if (total_bytes < out.total) out.total = total_bytes, out.text = name;
    if (available < out.available) out.available = available, out.text = name;
  };
  int64_t node_total = 0, node_available = 0;
  for (int node : nodes) {  // containers may hide these files: then the host's figures stand
    const std::string info = read_text(str(root, "/sys/devices/system/node/node", node, "/meminfo"));
    node_total += kilobytes(info, "MemTotal");
    node_available += kilobytes(info, "MemFree") + kilobytes(info, "Active(file)") +
                      kilobytes(info, "Inactive(file)") + kilobytes(info, "SReclaimable");
  }
  if (node_total > 0) limit(node_total, node_available, "memory of the NUMA nodes in use");
  const CgroupMemory cgroup = cgroup_memory(root);
  if (cgroup.limit >= 0) limit(cgroup.limit, cgroup.available, "cgroup memory limit");
  out.text = str(out.available >> 20, " MiB available of ", out.total >> 20, " MiB (", out.text, ")");
  return out;
}

}  // namespace octavo
