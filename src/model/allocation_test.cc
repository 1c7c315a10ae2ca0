// A decode step allocates nothing, in every family. Counts by replacing operator new for this test program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "model/testing.h"

namespace {

std::atomic<int64_t> allocations{0};

// Out of line: where GCC sees malloc behind a new it warns of a mismatched delete.
[[gnu::noinline]] void* counted(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
// Sanitizers bring a nothrow new of their own (std::stable_sort's), which would not pair with this delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace octavo {
namespace {

class AllocationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(AllocationTest, ADecodeStepAllocatesNothing) {
  const std::string path = std::string(OCTAVO_SHARED_DIR) + "/golden/models/" + GetParam();
  TestMachine machine(kernels::select());
  auto model = load_model(load_model_config(path), open_checkpoint(path), machine.ctx);
  TestRunner runner(*model, machine.ctx, kernels::KvFormat::kBF16, 16, 64, 1);
  std::vector<TestSequence> sequences(5);
  std::vector<TestRunner::Work> prefill, decode;
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].ids.assign(40 + i, 3);
    prefill.push_back({&sequences[i], static_cast<int>(39 + i), TestRunner::Work::kNone});
    decode.push_back({&sequences[i], 1, TestRunner::Work::kLast});
  }
  runner.step(prefill);
  std::vector<float> logits = runner.step(decode);
  const int64_t before = allocations;
  runner.repeat(logits.data());
  EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, AllocationTest,
                         ::testing::Values("opt-post-proj", "gpt2", "llama-yarn-gqa7", "mistral-swa32",
                                           "qwen2-gqa7-tied", "qwen3-tied"));

}  // namespace
}  // namespace octavo
