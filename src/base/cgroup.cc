#include "base/cgroup.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace octavo {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, separator);) out.push_back(word);
  return out;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

/// Our path in the hierarchy of `controller` (v1) or in the unified one (""), from /proc/self/cgroup:
/// "id:controllers:path".
bool own_path(const std::string& root, const std::string& controller, std::string& path) {
  for (const std::string& line : split(read_text(root + "/proc/self/cgroup"), '\n')) {
    const size_t a = line.find(':'), b = line.find(':', a + 1);
    if (a == std::string::npos || b == std::string::npos) continue;
    const std::string controllers = line.substr(a + 1, b - a - 1);
    if (controller.empty() ? controllers.empty() : contains(split(controllers, ','), controller)) {
      path = line.substr(b + 1);
      return true;
    }
  }
  return false;
}

struct Mount {
  std::string top;    ///< the cgroup that is mounted ("/" or a container's own)
  std::string point;  ///< where
};

/// From /proc/self/mountinfo: "id parent dev top point options ... - type source superoptions".
bool find_mount(const std::string& root, const std::string& controller, Mount& mount) {
  for (const std::string& line : split(read_text(root + "/proc/self/mountinfo"), '\n')) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> left = split(line.substr(0, dash), ' '),
                                   right = split(line.substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    const bool match = controller.empty()
                           ? right[0] == "cgroup2"
                           : right[0] == "cgroup" && contains(split(right[2], ','), controller);
    if (!match) continue;
    mount = {left[3], left[4]};
    return true;
  }
  return false;
}

/// The folders from our own group up to the mount point. Our path may lie outside what a container has
/// mounted (its mount is then its own group), and a path that does not exist there falls back to the mount
/// point.
std::vector<std::string> walk_up(const std::string& root, const Mount& mount, std::string path) {
  if (mount.top != "/" && path.rfind(mount.top, 0) == 0) path = path.substr(mount.top.size());
  std::vector<std::string> folders;
  const std::string base = root + mount.point;
  while (path.size() > 1) {
    folders.push_back(base + path);
    path = path.substr(0, path.rfind('/'));
  }
  folders.push_back(base);
  return folders;
}

constexpr int64_t kUnlimited = int64_t{1} << 60;  // v1 says "no limit" with about 2^63

/// A number of bytes, or -1 for "max", the v1 sentinel, or a missing file.
int64_t read_bytes(const std::string& path) {
  const std::string text = read_text(path);
  if (text.empty() || text[0] < '0' || text[0] > '9') return -1;
  const unsigned long long value = std::strtoull(text.c_str(), nullptr, 10);
  return value >= static_cast<unsigned long long>(kUnlimited) ? -1 : static_cast<int64_t>(value);
}

int64_t stat_value(const std::string& stat, const std::string& name) {
  for (const std::string& line : split(stat, '\n'))
    if (line.rfind(name + " ", 0) == 0) return std::strtoll(line.c_str() + name.size(), nullptr, 10);
  return 0;
}

double read_quota(const std::string& folder, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    std::istringstream in(read_text(folder + "/cpu.max"));  // "max 100000" or "50000 100000"
    if (!(in >> quota >> period)) return 0;
  } else {
    std::istringstream(read_text(folder + "/cpu.cfs_quota_us")) >> quota;
    std::istringstream(read_text(folder + "/cpu.cfs_period_us")) >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  if (in) out << in.rdbuf();
  return out.str();
}

CgroupLevels cgroup_levels(const std::string& controller, const std::string& root) {
  std::string path;
  Mount mount;
  // v1 first: where both are mounted (hybrid), a controller lives in v1 if v1 lists it.
  if (own_path(root, controller, path) && find_mount(root, controller, mount))
    return {false, walk_up(root, mount, path)};
  if (own_path(root, "", path) && find_mount(root, "", mount)) return {true, walk_up(root, mount, path)};
  return {};
}

double cgroup_cpu_quota(const std::string& root) {
  const CgroupLevels levels = cgroup_levels("cpu", root);
  double least = 0;
  for (const std::string& folder : levels.folders) {
    const double quota = read_quota(folder, levels.v2);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  }
  return least;
}

CgroupMemory cgroup_memory(const std::string& root) {
  const CgroupLevels levels = cgroup_levels("memory", root);
  CgroupMemory out;
  for (const std::string& folder : levels.folders) {
    int64_t limit = read_bytes(folder + (levels.v2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (levels.v2) {  // above memory.high the kernel throttles us to a crawl: as good as a limit
      const int64_t high = read_bytes(folder + "/memory.high");
      if (high >= 0 && (limit < 0 || high < limit)) limit = high;
    }
    if (limit < 0) continue;
    const int64_t used = read_bytes(folder + (levels.v2 ? "/memory.current" : "/memory.usage_in_bytes"));
    const std::string stat = read_text(folder + "/memory.stat"), prefix = levels.v2 ? "" : "total_";
    const int64_t cache =
        stat_value(stat, prefix + "inactive_file") + stat_value(stat, prefix + "active_file");
    const int64_t available = std::max<int64_t>(0, limit - std::max<int64_t>(0, used - cache));
    if (out.limit < 0 || limit < out.limit) out.limit = limit;
    if (out.available < 0 || available < out.available) out.available = available;
  }
  return out;
}

}  // namespace octavo
