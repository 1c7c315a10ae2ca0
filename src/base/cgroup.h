// The cgroups that we are in, v1 and v2, from our own up to the top of what is mounted: a limit on any of
// them binds us.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo {

struct CgroupLevels {
  bool v2 = false;
  std::vector<std::string> folders;  ///< our own group first; empty if the controller is not mounted
};

/// Folders of `controller` ("cpu", "memory") below `root`.
CgroupLevels cgroup_levels(const std::string& controller, const std::string& root);

/// CPUs' worth of quota, the least over all levels; 0: none.
double cgroup_cpu_quota(const std::string& root);

struct CgroupMemory {
  int64_t limit = -1;  ///< the least over all levels; -1: none
  int64_t available =
      -1;  ///< the least of limit - use + page cache, over all levels with a limit; -1: no limit
};
CgroupMemory cgroup_memory(const std::string& root);

/// A whole small file, "" if it cannot be read. (For /proc and /sys only.)
std::string read_text(const std::string& path);

}  // namespace octavo
