// Between submitters and the engine thread: what arrives, what is to be aborted, and who owns the sequences.
// Aborts are marks on sequences, not messages, so any number of them takes no memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/sequence.h"

namespace octavo {

class RequestQueue {
 public:
  // Any thread.

  uint64_t next_arrival() { return arrivals_++; }
  /// Requests and prompt tokens submitted and not yet scheduled.
  int64_t requests() const { return requests_; }
  int64_t tokens() const { return tokens_; }
  /// False once closed. CHECKs that the id is not in use.
  bool push(std::unique_ptr<Sequence> seq);
  void abort(uint64_t id);
  /// Aborts all there are and refuses new ones.
  void close();
  /// Has the engine thread answer between two steps; false once closed.
  bool ask_reset();

  // Engine thread.

  /// What came since the last take; valid until the next one. `aborts`: some sequences are marked.
  const std::vector<Sequence*>& take(bool* aborts);
  /// The sequence left the queue for the first time, to be computed or to end.
  void scheduled(const Sequence& seq);
  /// Gives up ownership: the sequence lives on to the next take, since the step under way may still look at
  /// it.
  void retire(Sequence& seq);
  /// Waits for something to do, unless `busy`; false once closed.
  bool wait(bool busy);
  /// Answers ask_reset.
  template <class F>
  void answer_reset(const F& reset) {
    std::lock_guard lock(mutex_);
    if (reset_) std::exchange(reset_, nullptr)->set_value(reset());
  }

 private:
  std::atomic<uint64_t> arrivals_{0};
  std::atomic<int64_t> requests_{0}, tokens_{0};
  std::vector<Sequence*> taken_;                 // engine thread
  std::vector<std::unique_ptr<Sequence>> dead_;  // engine thread
  std::mutex reset_mutex_;                       // one ask_reset at a time

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> live_;
  std::vector<Sequence*> inbox_;
  bool aborts_ = false, closed_ = false;
  std::promise<bool>* reset_ = nullptr;
};

}  // namespace octavo
