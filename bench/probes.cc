#include "bench/probes.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/cpu.h"
#include "base/error.h"

namespace octavo::bench {
namespace {

// Reads [p, p + bytes) as `streams` equal ranges side by side.
__attribute__((target("avx2"))) int64_t read_avx2(const std::byte* p, size_t bytes, int streams) {
  const size_t length = bytes / streams / 256 * 256;
  __m256i sum[4] = {};
  for (size_t at = 0; at < length; at += 256)
    for (int s = 0; s < streams; ++s) {
      const __m256i* line = reinterpret_cast<const __m256i*>(p + s * length + at);
      for (int i = 0; i < 8; ++i) sum[i % 4] = _mm256_add_epi64(sum[i % 4], _mm256_load_si256(line + i));
    }
  const __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
  return _mm256_extract_epi64(all, 0) + _mm256_extract_epi64(all, 3);
}

int64_t read_plain(const std::byte* p, size_t bytes, int streams) {
  const size_t length = bytes / streams / 64 * 64;
  int64_t sum = 0;
  for (size_t at = 0; at < length; at += 64)
    for (int s = 0; s < streams; ++s) {
      const int64_t* line = reinterpret_cast<const int64_t*>(p + s * length + at);
      for (int i = 0; i < 8; ++i) sum += line[i];
    }
  return sum;
}

constexpr int64_t kSteps = 1 << 14;  // 0.05 ms a piece: some samples fall between a neighbour's time slices
constexpr int kChains = 12;

// The empty asm keeps each chain in a register and stops the compiler from joining them.
#define OCTAVO_CHAINS(VEC, INIT, STEP)                                      \
  VEC sum[kChains];                                                         \
  _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) sum[i] = INIT; \
  for (int64_t step = 0; step < kSteps; ++step) {                           \
    _Pragma("GCC unroll 12") for (int i = 0; i < kChains; ++i) {            \
      sum[i] = STEP;                                                        \
      __asm__ volatile("" : "+v"(sum[i]));                                  \
    }                                                                       \
  }

__attribute__((target("avx2,fma"))) void fma_avx2() {
  const __m256 a = _mm256_set1_ps(0.999f);
  OCTAVO_CHAINS(__m256, a, _mm256_fmadd_ps(a, a, sum[i]))
}
__attribute__((target("avx512f"))) void fma_avx512() {
  const __m512 a = _mm512_set1_ps(0.999f);
  OCTAVO_CHAINS(__m512, a, _mm512_fmadd_ps(a, a, sum[i]))
}
__attribute__((target("avx512f,avx512bf16"))) void dot_avx512_bf16() {
  const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f7f3f7f);
  OCTAVO_CHAINS(__m512, _mm512_setzero_ps(), _mm512_dpbf16_ps(sum[i], a, a))
}

}  // namespace

Team make_team(int workers) {
  cpu_set_t set;
  OCTAVO_CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  TeamOptions options;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set) && (workers == 0 || static_cast<int>(options.cpus.size()) < workers))
      options.cpus.push_back(cpu);
  return Team(options);
}

Bandwidth read_bandwidth(Team& team, size_t bytes, int repeats) {
  void* buffer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OCTAVO_CHECK(buffer != MAP_FAILED);
  madvise(buffer, bytes, MADV_HUGEPAGE);
  std::byte* base = static_cast<std::byte*>(buffer);
  const int pieces = team.size() * 8;
  const size_t share = bytes / pieces;
  team.run(pieces, [&](int piece, int) { std::memset(base + piece * share, piece + 1, share); });
  Bandwidth best{0, 0};
  const auto read = cpu_features().avx2 ? read_avx2 : read_plain;
  for (int streams = 1; streams <= 8; ++streams) {
    const double seconds = best_of(repeats, [&] {
      team.run(pieces, [&](int piece, int) {
        volatile int64_t sink = read(base + piece * share, share, streams);
        (void)sink;
      });
    });
    const double rate = static_cast<double>(share / streams / 256 * 256 * streams * pieces) / seconds;
    if (rate > best.bytes_per_second) best = {rate, streams};
  }
  munmap(buffer, bytes);
  return best;
}

std::vector<Flops> peak_flops(Team& team, int repeats) {
  struct Loop {
    const char* isa;
    bool present;
    void (*run)();
    double flops_per_step;  ///< of one chain
  };
  const CpuFeatures& cpu = cpu_features();
  const Loop loops[] = {{"avx2", cpu.avx2, fma_avx2, 16},
                        {"avx512", cpu.avx512, fma_avx512, 32},
                        {"avx512_bf16", cpu.avx512_bf16, dot_avx512_bf16, 64}};
  std::vector<Flops> out;
  for (const Loop& loop : loops) {
    if (!loop.present) continue;
    const int pieces = team.size() * 16;
    const double seconds = best_of(repeats, [&] { team.run(pieces, [&](int, int) { loop.run(); }); });
    out.push_back({loop.isa, loop.flops_per_step * kChains * kSteps * pieces / seconds});
  }
  return out;
}

double peak_flops_of(const std::vector<Flops>& peaks, const std::string& isa) {
  for (const Flops& peak : peaks)
    if (peak.isa == isa) return peak.flops_per_second;
  return 0;
}

}  // namespace octavo::bench
