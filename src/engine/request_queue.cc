#include "engine/request_queue.h"

#include <utility>

#include "base/error.h"

namespace octavo {

bool RequestQueue::push(std::unique_ptr<Sequence> seq) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  requests_ += 1;
  tokens_ += seq->prompt_len;
  inbox_.push_back(seq.get());
  uint64_t id = seq->id;
  bool unique = live_.emplace(id, std::move(seq)).second;
  OCTAVO_CHECK(unique, "request id ", id, " is in use");
  wake_.notify_one();
  return true;
}

void RequestQueue::abort(uint64_t id) {
  std::lock_guard lock(mutex_);
  auto found = live_.find(id);
  if (found == live_.end()) return;
  found->second->aborted = true;
  aborts_ = true;
  wake_.notify_one();
}

void RequestQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& [id, seq] : live_) seq->aborted = true;
  aborts_ = true;
  if (reset_) std::exchange(reset_, nullptr)->set_value(false);
  wake_.notify_one();
}

bool RequestQueue::ask_reset() {
  std::lock_guard one_at_a_time(reset_mutex_);
  std::promise<bool> promise;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    reset_ = &promise;
  }
  wake_.notify_one();
  return promise.get_future().get();
}

const std::vector<Sequence*>& RequestQueue::take(bool* aborts) {
  dead_.clear();
  taken_.clear();
  std::lock_guard lock(mutex_);
  taken_.swap(inbox_);
  *aborts = std::exchange(aborts_, false);
  return taken_;
}

void RequestQueue::scheduled(const Sequence& seq) {
  requests_ -= 1;
  tokens_ -= seq.prompt_len;
}

void RequestQueue::retire(Sequence& seq) {
  std::lock_guard lock(mutex_);
  auto node = live_.find(seq.id);
  dead_.push_back(std::move(node->second));
  live_.erase(node);
}

bool RequestQueue::wait(bool busy) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return busy || closed_ || aborts_ || reset_ || !inbox_.empty(); });
  return !closed_;
}

}  // namespace octavo
