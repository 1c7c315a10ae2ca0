#include "base/cpu.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

constexpr uint32_t kFma = 1u << 12, kOsxsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
constexpr uint32_t kAvx2 = 1u << 5, kBmi2 = 1u << 8;
constexpr uint32_t kAvx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;

// Registers of a posed machine; function pointers cannot capture.
CpuidLeaf leaf1, leaf7, leaf7_1;
uint64_t xcr0;
bool xgetbv_called;

CpuFeatures pose() {
  xgetbv_called = false;
  return detect({[](uint32_t leaf, uint32_t subleaf) -> CpuidLeaf {
                   if (leaf == 0) return {7, 0, 0, 0};
                   if (leaf == 1) return leaf1;
                   return subleaf ? leaf7_1 : leaf7;
                 },
                 [] { return xgetbv_called = true, xcr0; }});
}

TEST(Cpu, NehalemHasNothingAndIsNotAskedForXgetbv) {
  leaf1 = leaf7 = leaf7_1 = {};
  xcr0 = ~uint64_t{0};
  EXPECT_EQ(pose().text(), "none");
  EXPECT_FALSE(xgetbv_called);  // it would be an illegal instruction
}

TEST(Cpu, HaswellNeedsTheOperatingSystem) {
  leaf1 = {0, 0, kFma | kOsxsave | kAvx | kF16c, 0};
  leaf7 = {0, kAvx2 | kBmi2, 0, 0};
  leaf7_1 = {1u << 4, 0, 0, 0};
  xcr0 = 7;
  EXPECT_EQ(pose().text(), "avx2");  // leaf 7.1 does not exist: its bits do not count
  xcr0 = 3;
  EXPECT_EQ(pose().text(), "none");
  xcr0 = 7;
  leaf1.ecx &= ~kFma;
  EXPECT_EQ(pose().text(), "none");
}

TEST(Cpu, Avx512AndAmxNeedTheirState) {
  leaf1 = {0, 0, kFma | kOsxsave | kAvx | kF16c, 0};
  leaf7 = {1, kAvx2 | kBmi2 | kAvx512, 1u << 11, 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25};
  leaf7_1 = {1u << 4 | 1u << 5, 0, 0, 0};
  xcr0 = 0x602e7;
  EXPECT_EQ(pose().text(), "avx2 avx_vnni avx512 avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_bf16");
  xcr0 = 0xe7;
  EXPECT_EQ(pose().text(), "avx2 avx_vnni avx512 avx512_vnni avx512_bf16 avx512_fp16");
  xcr0 = 0x7;
  EXPECT_EQ(pose().text(), "avx2 avx_vnni");
}

}  // namespace
}  // namespace octavo
