// One line on a terminal that shows how far a set of downloads is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace octavo {

class ProgressBar {
 public:
  /// Draws on stderr five times a second until destroyed; nothing at all unless `shown`.
  ProgressBar(std::string label, bool shown);
  ~ProgressBar();

  void add_total(uint64_t bytes) { total_ += bytes; }
  void add_done(int64_t bytes) { done_ += bytes; }

 private:
  void draw(double seconds);
  void run();

  std::string label_;
  std::atomic<uint64_t> total_{0}, done_{0};
  uint64_t first_done_ = 0;  ///< bytes that were there at the first drawing: not part of the speed
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace octavo
