// The ISA levels that tests go through. For tests only.
#pragma once

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/table.h"

namespace octavo::kernels {

/// Levels that serve entry(KernelTable) by something else than the level below; all of this machine's, or of
/// those that OCTAVO_TEST_LEVELS names (emulators are slow: tests/run_isa.py).
template <class Entry>
std::vector<std::string> test_levels(const Entry& entry) {
  std::vector<std::string> named, out;
  if (const char* only = std::getenv("OCTAVO_TEST_LEVELS")) {
    std::istringstream words(only);
    for (std::string word; words >> word;) named.push_back(word);
  }
  for (const char* const* isa = available(); *isa; ++isa) {
    bool wanted = named.empty();
    for (const std::string& name : named) wanted = wanted || name == *isa;
    if (!wanted) continue;
    const auto own = entry(select(*isa));
    if (isa != available()) {
      const auto below = entry(select(isa[-1]));
      if (std::memcmp(&own, &below, sizeof own) == 0) continue;
    }
    out.push_back(*isa);
  }
  return out;
}

}  // namespace octavo::kernels
