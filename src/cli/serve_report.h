// The figures of `bench serve`, as vLLM's client defines and prints them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace octavo {

/// What one request gave, as vLLM's client defines it.
struct Outcome {
  bool ok = false;
  double start = 0, first = 0,
         last = 0;  // seconds; first: the first chunk with choices, even if its text is empty
  std::vector<double> gaps;
  int64_t prompt_tokens = 0, output_tokens = 0;
  std::string text, error;
  double ttft() const { return first - start; }
  double latency() const { return last - start; }
  double tpot() const {
    return output_tokens > 1 ? (latency() - ttft()) / static_cast<double>(output_tokens - 1) : 0;
  }
};

struct ReportOptions {
  std::string percentile_metrics = "ttft,tpot,itl", metric_percentiles = "99", request_rate = "inf";
  std::vector<std::string> goodput;  ///< "ttft:200"
  int64_t max_concurrency = 0;
};

/// Prints the table and returns the result's keys. Error naming --goodput.
nlohmann::ordered_json summarise(const ReportOptions& options, const std::vector<Outcome>& outcomes,
                                 double begin, double duration);
/// --save-detailed: every request.
void add_details(const std::vector<Outcome>& outcomes, nlohmann::ordered_json& result);

}  // namespace octavo
