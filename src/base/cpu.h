// Instruction sets that this CPU has and the operating system saves the registers of.
#pragma once

#include <cstdint>
#include <string>

namespace octavo {

struct CpuFeatures {
  bool avx2 = false;  ///< AVX2, FMA, F16C and BMI2 together: the level's minimum (Haswell, Zen)
  bool avx_vnni = false;
  bool avx512 = false;  ///< F, BW, VL, DQ together (Skylake server, Zen 4)
  bool avx512_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
  bool amx_int8 = false, amx_bf16 = false;

  std::string text() const;  ///< "avx2 avx512 avx512_vnni", for `octavo info`
};

/// Registers of one CPUID leaf.
struct CpuidLeaf {
  uint32_t eax, ebx, ecx, edx;
};
/// Source of CPUID and XGETBV, so that tests can pose as other machines.
struct CpuidSource {
  CpuidLeaf (*cpuid)(uint32_t leaf, uint32_t subleaf);
  uint64_t (*xgetbv)();
};

CpuFeatures detect(const CpuidSource& source);
/// This machine's, detected once. Also asks the operating system for the AMX tiles: refused, they count as
/// absent.
const CpuFeatures& cpu_features();

}  // namespace octavo
