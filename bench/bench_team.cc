// Cost of an empty fork and join: bench_team [workers]
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/probes.h"

int main(int argc, char** argv) {
  using namespace octavo::bench;
  octavo::Team team = make_team(argc > 1 ? std::atoi(argv[1]) : 0);
  team.bind_caller();
  for (int per_worker : {1, 8}) {
    std::vector<double> microseconds;
    for (int i = 0; i < 20000; ++i) {
      const double start = now();
      team.run(per_worker * team.size(), [](int, int) {});
      microseconds.push_back((now() - start) * 1e6);
    }
    std::sort(microseconds.begin(), microseconds.end());
    std::cout << nlohmann::ordered_json{{"bench", "fork_join"},
                                        {"workers", team.size()},
                                        {"pieces", per_worker * team.size()},
                                        {"us_median", microseconds[microseconds.size() / 2]},
                                        {"us_p99", microseconds[microseconds.size() * 99 / 100]}}
              << std::endl;
  }
}
