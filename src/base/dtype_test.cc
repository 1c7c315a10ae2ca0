#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/workspace.h"

namespace octavo {
namespace {

TEST(DType, BFloat16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // tie to even
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38f))));
}

TEST(DType, Float16CoversEveryKind) {
  EXPECT_EQ(to_float(Float16{0x3c00}), 1.0f);
  EXPECT_EQ(to_float(Float16{0xc000}), -2.0f);
  EXPECT_EQ(to_float(Float16{0x0001}), 0x1p-24f);  // smallest subnormal
  EXPECT_EQ(to_float(Float16{0x7bff}), 65504.0f);
  EXPECT_TRUE(std::isinf(to_float(Float16{0x7c00})));
  EXPECT_TRUE(std::isnan(to_float(Float16{0x7e00})));
}

TEST(Workspace, ScopesReuseMemory) {
  Workspace workspace(1024);
  float* kept = workspace.alloc<float>(3);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(kept) % Workspace::kAlign, 0u);
  void* first;
  {
    Workspace::Scope scope(workspace);
    first = workspace.alloc<float>(16);
  }
  Workspace::Scope scope(workspace);
  EXPECT_EQ(workspace.alloc<char>(1), first);
  EXPECT_EQ(workspace.peak(), 128u);
  EXPECT_DEATH(workspace.alloc<char>(4096), "too small");
}

}  // namespace
}  // namespace octavo
