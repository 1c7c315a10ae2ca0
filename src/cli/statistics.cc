#include "cli/statistics.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "frontend/frontend.h"

namespace octavo {

double mean(const std::vector<double>& values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double standard_deviation(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double center = mean(values), sum = 0;
  for (double v : values) sum += (v - center) * (v - center);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  double rank = percent / 100 * static_cast<double>(values.size() - 1);
  size_t low = static_cast<size_t>(rank), high = std::min(low + 1, values.size() - 1);
  return values[low] + (rank - static_cast<double>(low)) * (values[high] - values[low]);
}

Progress::Progress(std::string label, int64_t total)
    : label_(std::move(label)), total_(total), shown_(isatty(STDERR_FILENO)), start_(steady_seconds()) {}

Progress::~Progress() {
  if (shown_) fprintf(stderr, "\n");
}

void Progress::advance(int64_t by) {
  done_ += by;
  double now = steady_seconds();
  if (!shown_ || (now - last_drawn_ < 0.1 && done_ < total_)) return;
  last_drawn_ = now;
  constexpr int kWidth = 30;
  const int filled = done_ < total_ ? static_cast<int>(kWidth * done_ / total_) : kWidth;
  std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  fprintf(stderr, "\r%s [%s] %lld/%lld %.1f/s ", label_.c_str(), bar.c_str(), static_cast<long long>(done_),
          static_cast<long long>(total_), static_cast<double>(done_) / std::max(now - start_, 1e-9));
}

std::string read_file(const std::string& flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error))  // a folder opens, and throws when it is read
    throw Error(flag, " ", path, ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << "\n";
  if (!file.flush()) throw Error(path, ": cannot be written");
}

}  // namespace octavo
