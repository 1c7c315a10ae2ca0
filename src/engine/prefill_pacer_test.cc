#include "engine/prefill_pacer.h"

#include <gtest/gtest.h>

namespace octavo {
namespace {

TEST(PrefillPacer, FollowsMeasuredSpeed) {
  PrefillPacer pacer(0.001);
  EXPECT_EQ(pacer.with_decodes(), 200);
  EXPECT_EQ(pacer.alone(), 2000);
  for (int i = 0; i < 20; ++i) pacer.observe(100, 100, 0.2);  // twice as slow
  EXPECT_NEAR(static_cast<double>(pacer.with_decodes()), 100, 1);
  pacer.observe(64, 0, 5.0);  // a decode step says nothing about prefill
  EXPECT_NEAR(static_cast<double>(pacer.with_decodes()), 100, 1);
}

TEST(PrefillPacer, HasAFloorForSlowModelsAndNoLimitForFastOnes) {
  PrefillPacer slow(1.0), fast(0), unknown(1e-30);
  EXPECT_EQ(slow.with_decodes(), PrefillPacer::kLeastWithDecodes);
  EXPECT_EQ(slow.alone(), PrefillPacer::kLeastAlone);
  EXPECT_GE(fast.with_decodes(), 1000000);
  EXPECT_GE(unknown.alone(), 1000000);
}

}  // namespace
}  // namespace octavo
