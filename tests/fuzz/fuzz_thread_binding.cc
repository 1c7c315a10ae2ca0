// VLLM_CPU_OMP_THREADS_BIND on machines of several shapes. Four bytes choose machine, ranks, threads and
// reserve; the rest is the text. What is accepted names only CPUs that there are.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "attempt.h"
#include "base/topology.h"

namespace {

using namespace octavo;

/// `shape`: nodes (1 to 4), cores a node (1 to 8), hyper-threads (1 or 2), a quota or none.
Machine machine_of(int shape) {
  const int nodes = 1 + (shape & 3), cores = 1 + (shape >> 2 & 7), threads = 1 + (shape >> 5 & 1);
  Machine out;
  for (int id = 0; id < nodes * cores * threads; ++id) {
    const int core = id % (nodes * cores);
    out.cpus.push_back({id, core, core / cores});
  }
  if (shape >> 6 & 1) out.quota = 2.5;
  out.one_per_core = !(shape >> 7 & 1);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 4) return 0;
  const Machine machine = machine_of(bytes[0]);
  BindingRequest request;
  request.ranks = 1 + bytes[1] % 8;
  if (bytes[2]) request.threads = bytes[2] - 1;
  if (bytes[3]) request.reserved = bytes[3] - 2;
  request.spec.assign(reinterpret_cast<const char*>(bytes) + 4, size - 4);
  fuzz::attempt([&] {
    const Binding binding = parse_thread_binding(request, machine);
    if (static_cast<int>(binding.ranks.size()) != request.ranks) std::abort();
    for (const auto& rank : binding.ranks) {
      if (rank.empty()) std::abort();
      for (int id : rank)
        if (std::ranges::find(machine.cpus, id, &Cpu::id) == machine.cpus.end()) std::abort();
    }
  });
  return 0;
}
