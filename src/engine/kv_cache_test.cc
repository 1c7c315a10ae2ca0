#include "engine/kv_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/error.h"
#include "engine/kv_blocks.h"
#include "engine/testing.h"

namespace octavo {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

KvSizing sizing() {
  return {.block_bytes = size_t{1} << 20,  // 1,024 blocks a GiB
          .windows = {0},
          .block_size = 16,
          .max_chunk = 512,
          .max_num_seqs = 4,
          .max_model_len = 0,
          .model_max_len = 8192,
          .available = 4 * kGiB,
          .limit = "cgroup memory.max"};
}

std::string error_of(const KvSizing& s) {
  try {
    plan_kv_cache(s);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KvPlan, TakesNoMoreThanTheRequestsCanUse) {
  KvPlan plan = plan_kv_cache(sizing());
  EXPECT_EQ(plan.num_blocks, 4 * 512);  // 4 sequences of 8192 tokens
  EXPECT_EQ(plan.max_model_len, 8192);
}

TEST(KvPlan, TakesItsFractionOfWhatIsLeft) {
  KvSizing s = sizing();
  s.max_num_seqs = 1000;
  s.fraction = 0.5;
  s.reserved = kGiB;
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 1024);
}

TEST(KvPlan, ExplicitSize) {  // BL-44
  KvSizing s = sizing();
  s.explicit_bytes = kGiB / 2 + 5;
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 512);
  s.explicit_bytes = 200 * kGiB;
  std::string error = error_of(s);
  for (const char* part : {"200.00 GiB", "4.00 GiB", "cgroup memory.max", "--kv-cache-memory-bytes"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

TEST(KvPlan, ATooLongModelIsRefusedWithNumbers) {
  KvSizing s = sizing();
  s.explicit_bytes = kGiB / 4;  // 256 blocks, 4096 tokens
  std::string error = error_of(s);
  for (const char* part : {"max_model_len 8192", "0.50 GiB", "0.25 GiB", "4096", "--max-model-len"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  s.max_model_len = 4096;
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 256);
  s.max_model_len = -1;
  EXPECT_EQ(plan_kv_cache(s).max_model_len, 4096);
  s.explicit_bytes = 1;
  EXPECT_NE(error_of(s), "");
  s.explicit_bytes = 0;
  s.reserved = 100 * kGiB;
  EXPECT_NE(error_of(s), "");
}

TEST(KvPlan, OverrideReplacesTheSize) {
  KvSizing s = sizing();
  s.num_blocks_override = 48;
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 48);
  EXPECT_EQ(plan_kv_cache(s).max_model_len, 8192);
  s.num_blocks_override = -1;
  EXPECT_NE(error_of(s).find("--num-gpu-blocks-override -1"), std::string::npos) << error_of(s);
  s.num_blocks_override = 4 * 1024;  // exactly what is left
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 4096);
  s.num_blocks_override = 4 * 1024 + 1;  // BL-44: it is held to the memory that there is
  std::string error = error_of(s);
  for (const char* part : {"--num-gpu-blocks-override 4097", "4.00 GiB", "cgroup memory.max"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  s.num_blocks_override = int64_t{1} << 27;  // slots of 16 tokens a block would pass 2^31
  EXPECT_NE(error_of(s).find("--num-gpu-blocks-override 134217728"), std::string::npos) << error_of(s);
}

TEST(KvPlan, SlidingWindowsNeedLittle) {
  KvSizing s = sizing();
  s.windows = {64};
  s.explicit_bytes = 8 << 20;
  EXPECT_EQ(plan_kv_cache(s).num_blocks, 8);  // window and a chunk of one block
}

TEST(KvBlocks, PeakCoversEveryAlignment) {
  for (int64_t window : {1, 2, 7, 16, 33})
    for (int64_t chunk : {1, 5, 16, 40})
      for (int64_t first = 0; first < 64; ++first) {
        int64_t low = std::max<int64_t>(0, first - window + 1) / 16, high = (first + chunk - 1) / 16;
        int64_t windows[] = {window};
        EXPECT_LE(high - low + 1, kv_peak_blocks(windows, first + chunk, 16, chunk))
            << window << " " << chunk;
      }
}

TEST(KvCache, ClearsOneBlock) {
  FakeModel model({.kv_groups = {{3, 0}}});
  KvCache cache(model.info(), kernels::select(), kernels::KvFormat::kF32, 16, 4);
  ASSERT_EQ(cache.store().regions.size(), 3u);
  for (const kernels::KvView& view : cache.store().regions) {
    size_t bytes = view.kv_heads * view.head_bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.base) % 64, 0u);
    std::memset(view.base, 0xff, 4 * bytes);
  }
  cache.clear_block(2);
  for (const kernels::KvView& view : cache.store().regions) {
    size_t bytes = view.kv_heads * view.head_bytes;
    for (size_t i = 0; i < 4 * bytes; ++i) ASSERT_EQ(view.base[i], std::byte(i / bytes == 2 ? 0 : 0xff));
  }
}

}  // namespace
}  // namespace octavo
