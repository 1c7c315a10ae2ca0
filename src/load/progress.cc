#include "load/progress.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace octavo {

ProgressBar::ProgressBar(std::string label, bool shown) : label_(std::move(label)) {
  if (shown) thread_ = std::thread([this] { run(); });
}

ProgressBar::~ProgressBar() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ProgressBar::run() {
  using Clock = std::chrono::steady_clock;
  auto start = Clock::now();
  first_done_ = done_;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(200), [this] { return stopping_; }))
    draw(std::chrono::duration<double>(Clock::now() - start).count());
  if (total_ == 0) return;
  draw(std::chrono::duration<double>(Clock::now() - start).count());
  std::fputc('\n', stderr);
}

void ProgressBar::draw(double seconds) {
  constexpr int kWidth = 24;
  uint64_t total = total_, done = std::min<uint64_t>(done_, total);
  if (total == 0) return;
  double share = static_cast<double>(done) / static_cast<double>(total);
  double speed = done > first_done_ && seconds > 0 ? static_cast<double>(done - first_done_) / seconds : 0;
  int filled = static_cast<int>(share * kWidth);
  std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  // \x1b[K clears what a longer line has left.
  std::fprintf(stderr, "\r%s [%s] %3.0f %%  %.1f / %.1f MB  %.1f MB/s", label_.c_str(), bar.c_str(),
               share * 100, static_cast<double>(done) / 1e6, static_cast<double>(total) / 1e6, speed / 1e6);
  if (speed > 0 && done < total)
    std::fprintf(stderr, "  %.0f s left", static_cast<double>(total - done) / speed);
  std::fputs("\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace octavo
