// A warm decode step takes nothing from the heap: neither through operator new nor, for OpenSSL, through its
// own hooks.
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/testing.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes, size_t align) {
  if (counting) ++allocations;
  void* p = align > alignof(std::max_align_t) ? std::aligned_alloc(align, (bytes + align - 1) / align * align)
                                              : std::malloc(bytes ? bytes : 1);
  if (!p) throw std::bad_alloc();
  return p;
}

// Before anything of OpenSSL allocates: it refuses the hooks later.
const bool hooked = CRYPTO_set_mem_functions([](size_t n, const char*, int) { return counted(n, 0); },
                                             [](void* p, size_t n, const char*, int) {
                                               if (counting) ++allocations;
                                               return std::realloc(p, n);
                                             },
                                             [](void* p, const char*, int) { std::free(p); });

}  // namespace

void* operator new(size_t bytes) { return counted(bytes, 0); }
void* operator new[](size_t bytes) { return counted(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
void* operator new[](size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
// Sanitizers bring a nothrow new of their own (std::stable_sort's), which would not pair with this delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 0); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 0); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace octavo {
namespace {

/// Sequences of many kinds, deep in their decodes; then 40 steps, in which each passes two or three block
/// borders.
void expect_no_allocations(Engine& engine, int32_t vocab) {
  ASSERT_TRUE(hooked);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t id = 1; id <= 8; ++id) {
    EngineRequest r =
        greedy(id, numbers(20 + 3 * static_cast<int64_t>(id), static_cast<int32_t>(id), vocab), 200);
    SamplingParams& p = r.sampling;
    p.ignore_eos = true;
    if (id % 2) {
      p.temperature = 0.8f;
      p.top_p = id % 3 ? 0.9f : 1.0f;
      p.top_k = id % 3 ? 0 : 20;
      p.repetition_penalty = 1.2f;
      p.logit_bias = {{3, 1.0f}};
    }
    if (id % 4 == 0) p.logprobs = 5;
    if (id == 6) p.logprobs_mode = LogprobsMode::kProcessedLogprobs, p.logprobs = 2;
    if (id == 7) p.allowed_token_ids = {1, 2, 3, 50, 60};
    if (id == 5) p.bad_words = {{4, 5}, {7}};
    streams.push_back(engine.submit(std::move(r), nullptr));
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(engine.step());
  allocations = 0;
  counting = true;
  for (int i = 0; i < 40; ++i) engine.step();
  counting = false;
  EXPECT_EQ(allocations, 0);
  for (auto& stream : streams) EXPECT_GE(stream->size(), 50);
}

/// What the fake itself allocates is not the engine's.
class UncountedFake : public FakeModel {
 public:
  using FakeModel::FakeModel;
  void forward(OpContext& ctx, const StepInput& step, const KvStore& kv, float* logits) override {
    bool was = counting.exchange(false);
    FakeModel::forward(ctx, step, kv, logits);
    counting = was;
  }
};

TEST(EngineAllocation, NoneInAWarmStep) {
  std::vector<int64_t> reports(1);
  Engine engine(std::make_unique<UncountedFake>(FakeModelOptions{.kv_groups = {{1, 0}, {1, 24}}}),
                test_config(), test_team(), kernels::select());
  engine.set_listener([&](const StepReport& report) { reports[0] += report.tokens; });
  expect_no_allocations(engine, 97);
  EXPECT_GT(reports[0], 0);
}

TEST(EngineAllocation, NoneWithARealModel) {
  Engine engine(golden_model("llama-bias-gqa3-tied"), test_config(), test_team(), kernels::select());
  expect_no_allocations(engine, static_cast<int32_t>(engine.model_info().vocab));
}

}  // namespace
}  // namespace octavo
