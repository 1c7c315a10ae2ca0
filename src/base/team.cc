#include "base/team.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "base/error.h"

namespace octavo {
namespace {

using Clock = std::chrono::steady_clock;

// A worker that finds nothing to do spins this long before it parks. Steps of a busy engine follow one
// another faster, and an idle server stops using the CPU within it.
constexpr auto kSpinBeforePark = std::chrono::microseconds(300);
// The caller spins this long on pieces that others hold, then sleeps until the last is finished: the holder
// may need this very CPU. (Not sched_yield: it hands a whole time slice to any niced neighbour; a woken
// sleeper preempts that one.)
constexpr auto kSpinBeforeSleep = std::chrono::microseconds(200);
constexpr int kPausesPerClockRead = 32;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory");
#endif
}

/// Spins until ready() or the time is over; true if ready.
template <class Ready>
bool spin(Clock::duration limit, const Ready& ready) {
  const auto end = Clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return ready();
}

// The unclaimed pieces [next, end) of one worker's share and the run they belong to, in one word: a claim is
// a CAS of the whole word, so that a thief that was descheduled between reading and claiming fails if the run
// has changed. (The epoch would have to wrap, 2^24 runs, while the thief sleeps.)
struct Share {
  static constexpr int kPieceBits = 20;
  static constexpr uint64_t kPieceMask = (1u << kPieceBits) - 1;
  uint64_t word;

  static Share make(uint32_t epoch, int next, int end) {
    return {static_cast<uint64_t>(epoch) << (2 * kPieceBits) | static_cast<uint64_t>(next) << kPieceBits |
            static_cast<uint64_t>(end)};
  }
  uint32_t epoch() const { return static_cast<uint32_t>(word >> (2 * kPieceBits)); }
  int next() const { return static_cast<int>(word >> kPieceBits & kPieceMask); }
  int end() const { return static_cast<int>(word & kPieceMask); }
};
constexpr int kMaxPieces = static_cast<int>(Share::kPieceMask);
constexpr uint32_t kEpochMask = (1u << 24) - 1;

struct alignas(64) Slot {
  std::atomic<uint64_t> share{0};

  /// Claims one piece: the owner from the front (its memory streams stay in order), a thief from the back.
  /// -1: none left.
  int claim(bool owner) {
    uint64_t seen = share.load(std::memory_order_acquire);
    for (;;) {
      const Share s{seen};
      if (s.next() >= s.end()) return -1;
      const Share left = owner ? Share::make(s.epoch(), s.next() + 1, s.end())
                               : Share::make(s.epoch(), s.next(), s.end() - 1);
      if (share.compare_exchange_weak(seen, left.word, std::memory_order_acq_rel, std::memory_order_acquire))
        return owner ? s.next() : s.end() - 1;
    }
  }
};

void bind_thread(pthread_t thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(thread, sizeof set,
                         &set);  // A CPU that went away since detection only costs the binding.
}

}  // namespace

struct Team::Impl {
  TeamOptions options;
  int size = 1;
  std::unique_ptr<Slot[]> slots;
  std::vector<std::thread> threads;

  // The run in progress. Written while no piece is unfinished, read only between claiming a piece and
  // finishing it.
  RawFn fn = nullptr;
  const void* context = nullptr;
  int first_piece = 0;
  uint32_t epoch = 0;
  alignas(64) std::atomic<int> unfinished{0};
  std::atomic<bool> caller_sleeps{false};

  alignas(64) std::atomic<uint32_t> wake{0};  ///< futex word of the parked workers
  std::atomic<int> parked{0};
  std::atomic<bool> stop{false};

  void work(int worker);
  void drain(int slot, int worker);
  void await_run(int worker, uint32_t last_epoch);
  void thread_main(int worker);
  void publish(int pieces);
  void await_finish();
};

/// Executes pieces of one share until none is unclaimed.
void Team::Impl::drain(int slot, int worker) {
  int done = 0;
  for (int piece; (piece = slots[slot].claim(slot == worker)) >= 0; ++done)
    fn(context, first_piece + piece, worker);
  if (done && unfinished.fetch_sub(done, std::memory_order_seq_cst) == done &&
      caller_sleeps.load(std::memory_order_seq_cst))
    unfinished.notify_one();
}

void Team::Impl::work(int worker) {
  for (int i = 0; i < size; ++i) drain(worker + i < size ? worker + i : worker + i - size, worker);
}

void Team::Impl::await_run(int worker, uint32_t last_epoch) {
  auto changed = [&] {
    return Share{slots[worker].share.load(std::memory_order_acquire)}.epoch() != last_epoch ||
           stop.load(std::memory_order_relaxed);
  };
  if (spin(kSpinBeforePark, changed)) return;
  // Either publish() sees `parked` and wakes us, or we see its shares: both sides put a full fence between
  // store and load.
  parked.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t seen = wake.load(std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (changed()) break;
    wake.wait(seen, std::memory_order_seq_cst);
  }
  parked.fetch_sub(1, std::memory_order_relaxed);
}

void Team::Impl::thread_main(int worker) {
  uint32_t last_epoch = 0;
  while (true) {
    await_run(worker, last_epoch);
    if (stop.load(std::memory_order_acquire)) return;
    last_epoch = Share{slots[worker].share.load(std::memory_order_acquire)}.epoch();
    work(worker);
  }
}

void Team::Impl::publish(int pieces) {
  epoch = (epoch + 1) & kEpochMask;
  unfinished.store(pieces, std::memory_order_relaxed);
  for (int w = 0; w < size; ++w) {
    const int first = static_cast<int>(static_cast<int64_t>(pieces) * w / size);
    const int last = static_cast<int>(static_cast<int64_t>(pieces) * (w + 1) / size);
    slots[w].share.store(Share::make(epoch, first, last).word, std::memory_order_release);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (parked.load(std::memory_order_seq_cst) > 0) {
    wake.fetch_add(1, std::memory_order_seq_cst);
    wake.notify_all();
  }
}

void Team::Impl::await_finish() {
  auto finished = [&] { return unfinished.load(std::memory_order_acquire) == 0; };
  if (spin(kSpinBeforeSleep, finished)) return;
  caller_sleeps.store(true, std::memory_order_seq_cst);
  for (int left; (left = unfinished.load(std::memory_order_seq_cst)) != 0;)
    unfinished.wait(left, std::memory_order_seq_cst);
  caller_sleeps.store(false, std::memory_order_relaxed);
}

Team::Team(TeamOptions options) : impl_(std::make_unique<Impl>()) {
  OCTAVO_CHECK(!options.cpus.empty());
  Impl& impl = *impl_;
  impl.size = static_cast<int>(options.cpus.size());
  impl.options = std::move(options);
  impl.slots = std::make_unique<Slot[]>(impl.size);
  for (int w = 1; w < impl.size; ++w) {
    impl.threads.emplace_back([&impl, w] { impl.thread_main(w); });
    pthread_t handle = impl.threads.back().native_handle();
    pthread_setname_np(handle, ("octavo-w" + std::to_string(w)).c_str());
    if (impl.options.pin) bind_thread(handle, impl.options.cpus[w]);
  }
}

Team::~Team() {
  impl_->stop.store(true, std::memory_order_seq_cst);
  impl_->wake.fetch_add(1, std::memory_order_seq_cst);
  impl_->wake.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

int Team::size() const { return impl_->size; }

void Team::bind_caller() const {
  if (impl_->options.pin) bind_thread(pthread_self(), impl_->options.cpus[0]);
}

void Team::run_raw(int pieces, RawFn fn, const void* context) {
  Impl& impl = *impl_;
  if (impl.size == 1 || pieces <= 1) {
    for (int piece = 0; piece < pieces; ++piece) fn(context, piece, 0);
    return;
  }
  for (int first = 0; first < pieces; first += kMaxPieces) {
    impl.fn = fn;
    impl.context = context;
    impl.first_piece = first;
    impl.publish(std::min(pieces - first, kMaxPieces));
    impl.work(0);
    impl.await_finish();
  }
}

}  // namespace octavo
