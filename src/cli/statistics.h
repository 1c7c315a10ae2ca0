// Means, percentiles, and a progress bar for terminals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo {

double mean(const std::vector<double>& values);
double standard_deviation(const std::vector<double>& values);
/// Linear interpolation between ranks, as numpy does; 0 for no values.
double percentile(std::vector<double> values, double percent);

/// On stderr, if that is a terminal; otherwise silent.
class Progress {
 public:
  Progress(std::string label, int64_t total);
  ~Progress();
  void advance(int64_t by = 1);
  bool complete() const { return done_ >= total_; }

 private:
  const std::string label_;
  const int64_t total_;
  const bool shown_;
  int64_t done_ = 0;
  double start_, last_drawn_ = 0;
};

/// The whole file that a flag names; Error with both.
std::string read_file(const std::string& flag, const std::string& path);
/// Writes text and a line end to a file; Error naming it.
void write_file(const std::string& path, const std::string& text);

}  // namespace octavo
