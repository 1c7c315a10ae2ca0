#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace octavo {
namespace {

bool bit(uint32_t word, int position) { return (word >> position) & 1u; }

#if defined(__x86_64__)
CpuidLeaf machine_cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r{};
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

/// Linux gives a process the 8 KB of tile registers only on request (for all its threads, present and
/// future); the first tile instruction is an illegal one without. Refused by kernels before 5.16 and where a
/// signal stack is too small.
bool request_tiles() {
  constexpr int kArchReqXcompPerm = 0x1023, kXfeatureTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
}

uint64_t machine_xgetbv() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}
#endif

}  // namespace

CpuFeatures detect(const CpuidSource& source) {
  CpuFeatures f;
  const CpuidLeaf one = source.cpuid(1, 0);
  if (!bit(one.ecx, 27) || !bit(one.ecx, 28)) return f;  // OSXSAVE (xgetbv would fault without it), AVX
  const uint64_t state = source.xgetbv();
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6, tiles = (state & 0x60000) == 0x60000;
  const uint32_t max_leaf = source.cpuid(0, 0).eax;
  if (!ymm || max_leaf < 7) return f;
  const CpuidLeaf seven = source.cpuid(7, 0);
  const CpuidLeaf seven_one = seven.eax >= 1 ? source.cpuid(7, 1) : CpuidLeaf{};

  f.avx2 = bit(seven.ebx, 5) && bit(seven.ebx, 8) && bit(one.ecx, 12) && bit(one.ecx, 29);
  f.avx_vnni = f.avx2 && bit(seven_one.eax, 4);
  f.avx512 =
      f.avx2 && zmm && bit(seven.ebx, 16) && bit(seven.ebx, 17) && bit(seven.ebx, 30) && bit(seven.ebx, 31);
  f.avx512_vnni = f.avx512 && bit(seven.ecx, 11);
  f.avx512_bf16 = f.avx512 && bit(seven_one.eax, 5);
  f.avx512_fp16 = f.avx512 && bit(seven.edx, 23);
  f.amx_int8 = f.avx512 && tiles && bit(seven.edx, 24) && bit(seven.edx, 25);
  f.amx_bf16 = f.avx512 && tiles && bit(seven.edx, 24) && bit(seven.edx, 22);
  return f;
}

const CpuFeatures& cpu_features() {
#if defined(__x86_64__)
  static const CpuFeatures features = [] {
    CpuFeatures f = detect({machine_cpuid, machine_xgetbv});
    if ((f.amx_int8 || f.amx_bf16) && !request_tiles()) f.amx_int8 = f.amx_bf16 = false;
    return f;
  }();
#else
  static const CpuFeatures features;
#endif
  return features;
}

std::string CpuFeatures::text() const {
  std::string out;
  auto add = [&](bool present, const char* name) {
    if (present) out += (out.empty() ? "" : " ") + std::string(name);
  };
  add(avx2, "avx2");
  add(avx_vnni, "avx_vnni");
  add(avx512, "avx512");
  add(avx512_vnni, "avx512_vnni");
  add(avx512_bf16, "avx512_bf16");
  add(avx512_fp16, "avx512_fp16");
  add(amx_int8, "amx_int8");
  add(amx_bf16, "amx_bf16");
  return out.empty() ? "none" : out;
}

}  // namespace octavo
