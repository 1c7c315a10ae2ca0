#include "bench/probes.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <sstream>

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

// The inner loops of the int8 kernels (src/kernels/generic/linear_w8a8.inl, linear_w4a8.inl) without their
// memory: twelve or sixteen sums, weights made ready once for all of them as in a tile, nothing else.
#define OCTAVO_EACH(N) _Pragma("GCC unroll 16") for (int i = 0; i < N; ++i)
#define OCTAVO_HOLD(X) __asm__ volatile("" : "+v"(X))
#define OCTAVO_WRITTEN(X) __asm__ volatile("" : : "r"(X) : "memory")  // every element, every step

// The products as assembly: the compiler would multiply once for all sums, since all have the same operands.
#define OCTAVO_PRODUCT(MULTIPLY, ADD, SUM, W, X)                  \
  do {                                                            \
    __m256i product;                                              \
    __asm__ volatile(MULTIPLY " %3, %2, %1\n\t" ADD " %1, %0, %0" \
                     : "+x"(SUM), "=&x"(product)                  \
                     : "x"(W), "x"(X));                           \
  } while (0)

/// A tile of 6 x 16: a pair of k a step; two extensions, then VPMADDWD and VPADDD twelve times.
__attribute__((target("avx2"))) void w8a8_avx2() {
  __m256i sum[12] = {}, x = _mm256_set1_epi16(3);
  const __m128i bytes = _mm_set1_epi8(5);
  for (int64_t step = 0; step < kSteps; ++step) {
    __m256i w[2];
    OCTAVO_EACH(2) __asm__ volatile("vpmovsxbw %1, %0" : "=x"(w[i]) : "x"(bytes));
    OCTAVO_EACH(12) OCTAVO_PRODUCT("vpmaddwd", "vpaddd", sum[i], w[i % 2], x);
  }
}

/// A tile of 6 x 16: 32 k of one group a step, of weights that were unpacked before (for a large batch that
/// is once for all its rows).
__attribute__((target("avx2,fma"))) void w4a8_avx2() {
  const __m256i x = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  __m256i w[2] = {_mm256_set1_epi8(5), _mm256_set1_epi8(7)};
  alignas(32) float results[12][8] = {};
  for (int64_t step = 0; step < kSteps / 16; ++step) {
    __m256i sum[12];
    OCTAVO_EACH(12) sum[i] = x;
    for (int quad = 0; quad < 8; ++quad) {
      OCTAVO_EACH(2) OCTAVO_HOLD(w[i]);
      OCTAVO_EACH(12) OCTAVO_PRODUCT("vpmaddubsw", "vpaddw", sum[i], w[i % 2], x);
    }
    OCTAVO_EACH(12) {
      const __m256 value = _mm256_cvtepi32_ps(_mm256_madd_epi16(sum[i], ones));
      _mm256_store_ps(results[i], _mm256_fmadd_ps(value, value, _mm256_load_ps(results[i])));
    }
    OCTAVO_WRITTEN(results);
  }
}

/// A tile of 8 x 32: four k a step; sixteen VPDPBUSD.
__attribute__((target("avx512f,avx512vnni"))) void w8a8_avx512_vnni() {
  __m512i sum[16] = {}, x = _mm512_set1_epi8(3), w = _mm512_set1_epi8(5);
  for (int64_t step = 0; step < kSteps; ++step) OCTAVO_EACH(16) {
      sum[i] = _mm512_dpbusd_epi32(sum[i], w, x);
      OCTAVO_HOLD(sum[i]);
    }
}

/// A tile of 12 x 16: 32 k of one group a step, results in registers.
__attribute__((target("avx512f,avx512bw,avx512vnni"))) void w4a8_avx512_vnni() {
  const __m512i x = _mm512_set1_epi8(3), mask = _mm512_set1_epi8(15);
  __m512i bytes = _mm512_set1_epi8(0x35);
  __m512 kept[12] = {}, scale = _mm512_set1_ps(0.5f);
  for (int64_t step = 0; step < kSteps / 16; ++step) {
    __m512i sum[12];
    OCTAVO_EACH(12) sum[i] = x;
    for (int quad = 0; quad < 8; ++quad) {
      OCTAVO_HOLD(bytes);
      const __m512i w = _mm512_and_si512(quad % 2 ? _mm512_srli_epi16(bytes, 4) : bytes, mask);
      OCTAVO_EACH(12) {
        sum[i] = _mm512_dpbusd_epi32(sum[i], w, x);
        OCTAVO_HOLD(sum[i]);
      }
    }
    OCTAVO_EACH(12) {
      kept[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), scale, kept[i]);
      OCTAVO_HOLD(kept[i]);
    }
  }
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

int64_t read_bytes(const std::byte* p, size_t bytes, int streams) {
  return (cpu_features().avx2 ? read_avx2 : read_plain)(p, bytes, streams);
}

ReadBuffer::ReadBuffer(Team& team, size_t bytes)
    : team_(team), bytes_(bytes), pieces_(team.size() * 8), share_(bytes / pieces_) {
  void* buffer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OCTAVO_CHECK(buffer != MAP_FAILED);
  madvise(buffer, bytes, MADV_HUGEPAGE);
  base_ = static_cast<std::byte*>(buffer);
  team.run(pieces_, [&](int piece, int) { std::memset(base_ + piece * share_, piece + 1, share_); });
}

ReadBuffer::~ReadBuffer() { munmap(base_, bytes_); }

double ReadBuffer::pass(int streams) {
  const double start = now();
  team_.run(pieces_, [&](int piece, int) {
    volatile int64_t sink = read_bytes(base_ + piece * share_, share_, streams);
    (void)sink;
  });
  return static_cast<double>(share_ / streams / 256 * 256 * streams * pieces_) / (now() - start);
}

Bandwidth read_bandwidth(Team& team, size_t bytes, int repeats) {
  ReadBuffer buffer(team, bytes);
  Bandwidth best{0, 0};
  for (int streams = 1; streams <= 8; ++streams)
    for (int i = 0; i < repeats; ++i)
      if (const double rate = buffer.pass(streams); rate > best.bytes_per_second) best = {rate, streams};
  return best;
}

std::vector<Flops> peak_flops(Team& team, int repeats) {
  struct Loop {
    const char* isa;
    const char* format;
    bool present;
    void (*run)();
    double flops;  ///< of a call
  };
  const CpuFeatures& cpu = cpu_features();
  const double steps = kSteps;
  const Loop loops[] = {{"avx2", "f32", cpu.avx2, fma_avx2, kChains * 16 * steps},
                        {"avx512", "f32", cpu.avx512, fma_avx512, kChains * 32 * steps},
                        {"avx512_bf16", "bf16", cpu.avx512_bf16, dot_avx512_bf16, kChains * 64 * steps},
                        {"avx2", "w8a8", cpu.avx2, w8a8_avx2, 12 * 32 * steps},
                        {"avx2", "w4a8", cpu.avx2, w4a8_avx2, 12 * 512 * steps / 16},
                        {"avx512_vnni", "w8a8", cpu.avx512_vnni, w8a8_avx512_vnni, 16 * 128 * steps},
                        {"avx512_vnni", "w4a8", cpu.avx512_vnni, w4a8_avx512_vnni, 12 * 1024 * steps / 16}};
  std::vector<Flops> out;
  for (const Loop& loop : loops) {
    if (!loop.present) continue;
    const int pieces = team.size() * 16;
    const double seconds = best_of(repeats, [&] { team.run(pieces, [&](int, int) { loop.run(); }); });
    out.push_back({loop.isa, loop.format, loop.flops * pieces / seconds});
  }
  return out;
}

double fma_peak(const std::vector<Flops>& peaks, const std::string& given) {
  const std::string isa = given == "avx_vnni" ? "avx2" : given;
  double best = 0;
  for (const Flops& peak : peaks)
    if (peak.format == "f32" && isa.starts_with(peak.isa)) best = peak.flops_per_second;
  return best;
}

double peak_of_kernel(const std::vector<Flops>& peaks, const std::string& name) {
  std::istringstream words(name);
  std::string format, level;
  words >> format >> level;
  for (const Flops& peak : peaks)
    if (peak.format == format && peak.isa == level) return peak.flops_per_second;
  if (name.find("rounded to bf16") != std::string::npos) return peak_of_kernel(peaks, "bf16 avx512_bf16");
  const bool float_products = level.starts_with("avx") || level == "scalar";  // not "q4_k int8 avx2"
  const bool int8 = format.ends_with("a8");
  return float_products && !int8 ? fma_peak(peaks, level) : 0;
}

}  // namespace octavo::bench
