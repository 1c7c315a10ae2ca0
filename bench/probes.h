// The limits of this machine that kernels are measured against, found in the same run as the kernels.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/team.h"

namespace octavo::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of the fastest of `repeats` calls: on a shared machine the minimum is the figure that repeats.
template <class F>
double best_of(int repeats, const F& f) {
  double best = 1e30;
  for (int i = 0; i < repeats; ++i) {
    const double start = now();
    f();
    const double seconds = now() - start;
    if (seconds < best) best = seconds;
  }
  return best;
}

/// A Team over the CPUs that this process may use, one worker each.
Team make_team(int workers = 0);

struct Bandwidth {
  double bytes_per_second;
  int streams;  ///< a thread, of the best
};
/// Reads `bytes` (far above the last-level cache) with all workers, best over 1..8 streams a thread.
Bandwidth read_bandwidth(Team& team, size_t bytes = size_t{1} << 28, int repeats = 20);

/// Reads [p, p + bytes) on this thread as `streams` equal ranges side by side; returns something of it.
int64_t read_bytes(const std::byte* p, size_t bytes, int streams);

/// The memory that read_bandwidth() reads: one pass at a time beside what is measured, where neighbours let
/// the bandwidth change from one second to the next.
class ReadBuffer {
 public:
  explicit ReadBuffer(Team& team, size_t bytes = size_t{1} << 28);
  ~ReadBuffer();
  ReadBuffer(const ReadBuffer&) = delete;
  double pass(int streams);  ///< bytes per second

 private:
  Team& team_;
  size_t bytes_;
  int pieces_;
  size_t share_;  ///< of a piece
  std::byte* base_;
};

struct Flops {
  std::string isa, format;  ///< "f32", "bf16" (dot products), "w8a8", "w4a8"
  double flops_per_second;  ///< a multiply-add counts two; all workers together
};
/// Peak of register-only loops: F32 FMA, BF16 dot products, and the exact instruction mixes of the int8
/// kernels, per level where the CPU has it.
std::vector<Flops> peak_flops(Team& team, int repeats = 200);
/// The limit of a linear kernel by its name ("w8a8 avx2 6x16 madd": format, level): its own probe, or the F32
/// FMA peak of the level for float formats that have none. 0 if there is no probe.
double peak_of_kernel(const std::vector<Flops>& peaks, const std::string& name);
/// F32 FMA peak of a level ("avx512_vnni" has avx512's).
double fma_peak(const std::vector<Flops>& peaks, const std::string& isa);

}  // namespace octavo::bench
