// Dispatch. tests/run_isa.py runs this on emulated CPUs and compares the printed levels with what each must
// have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/table.h"

namespace octavo::kernels {
namespace {

std::vector<std::string> levels() {
  std::vector<std::string> out;
  for (const char* const* isa = available(); *isa; ++isa) out.push_back(*isa);
  return out;
}

TEST(Select, TheHighestLevelServesUnlessCapped) {
  const auto present = levels();
  ASSERT_FALSE(present.empty());
  EXPECT_EQ(present.front(), "scalar");
  std::string line;
  for (const std::string& level : present) {
    EXPECT_EQ(select(level.c_str()).isa, level);
    line += " " + level;
  }
  if (!std::getenv("OCTAVO_ISA")) {
    EXPECT_EQ(select().isa, present.back());
  }
  std::cout << "levels:" << line << std::endl;
}

TEST(Select, ALevelThatTheCpuLacksGivesTheOneBelow) {
  const auto present = levels();
  std::string below = "scalar";
  for (const char* level : {"scalar", "avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"}) {
    if (std::find(present.begin(), present.end(), level) != present.end()) below = level;
    EXPECT_EQ(select(level).isa, below) << level;
  }
}

// BL-45
TEST(Select, UnknownLevelsAreRefusedWithTheList) {
  for (const std::string level : {"", "sse9", "AVX2", "avx2 ", "avx", "avx1024"}) {
    std::string refusal = "accepted";
    try {
      select(level.c_str());
    } catch (const Error& e) {
      refusal = e.what();
    }
    EXPECT_NE(refusal.find("'" + level + "'"), std::string::npos) << refusal;
    for (const std::string& known : levels()) EXPECT_NE(refusal.find(known), std::string::npos) << refusal;
  }
}

}  // namespace
}  // namespace octavo::kernels
