// Peak multiply-add rate per ISA: probe_flops [workers]
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/probes.h"

int main(int argc, char** argv) {
  octavo::Team team = octavo::bench::make_team(argc > 1 ? std::atoi(argv[1]) : 0);
  team.bind_caller();
  for (const octavo::bench::Flops& peak : octavo::bench::peak_flops(team))
    std::cout << nlohmann::ordered_json{{"probe", "peak_flops"},
                                        {"workers", team.size()},
                                        {"isa", peak.isa},
                                        {"format", peak.format},
                                        {"GFLOP/s", peak.flops_per_second / 1e9}}
              << std::endl;
}
