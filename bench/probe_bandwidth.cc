// Memory read bandwidth: probe_bandwidth [workers]
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/probes.h"

int main(int argc, char** argv) {
  octavo::Team team = octavo::bench::make_team(argc > 1 ? std::atoi(argv[1]) : 0);
  team.bind_caller();
  const octavo::bench::Bandwidth best = octavo::bench::read_bandwidth(team);
  std::cout << nlohmann::ordered_json{{"probe", "read_bandwidth"},
                                      {"workers", team.size()},
                                      {"streams", best.streams},
                                      {"GB/s", best.bytes_per_second / 1e9}}
            << std::endl;
}
