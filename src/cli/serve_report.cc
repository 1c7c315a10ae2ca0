#include "cli/serve_report.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "cli/statistics.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

struct Series {
  const char *key, *title, *name;
  std::vector<double> ms;
};

std::vector<Series> series_of(const std::vector<Outcome>& outcomes) {
  std::vector<Series> out = {{"ttft", "Time to First Token", "TTFT", {}},
                             {"tpot", "Time per Output Token (excl. 1st token)", "TPOT", {}},
                             {"itl", "Inter-token Latency", "ITL", {}},
                             {"e2el", "End-to-end Latency", "E2EL", {}}};
  for (const Outcome& o : outcomes) {
    if (!o.ok) continue;
    out[0].ms.push_back(1000 * o.ttft());
    if (o.output_tokens > 1) out[1].ms.push_back(1000 * o.tpot());
    for (double gap : o.gaps) out[2].ms.push_back(1000 * gap);
    out[3].ms.push_back(1000 * o.latency());
  }
  return out;
}

/// Requests that met all --goodput KEY:MS limits.
int64_t count_good(const ReportOptions& o, const std::vector<Outcome>& outcomes) {
  std::map<std::string, double> limits;
  for (const std::string& item : o.goodput) {
    size_t colon = item.find(':');
    if (colon == item.npos) throw Error("--goodput ", item, ": expected METRIC:MS");
    limits[item.substr(0, colon)] = std::atof(item.c_str() + colon + 1);
  }
  int64_t good = 0;
  for (const Outcome& outcome : outcomes) {
    auto within = [&](const char* key, double seconds) {
      return !limits.contains(key) || 1000 * seconds <= limits[key];
    };
    good += outcome.ok && within("ttft", outcome.ttft()) && within("tpot", outcome.tpot()) &&
            within("e2el", outcome.latency());
  }
  return good;
}

/// Largest number of tokens in any second, and of requests at once.
std::pair<double, double> peaks(const std::vector<Outcome>& outcomes, double begin) {
  std::map<int64_t, std::pair<int64_t, int64_t>> seconds;  // tokens, requests
  for (const Outcome& o : outcomes) {
    if (!o.ok) continue;
    double at = o.first;
    ++seconds[static_cast<int64_t>(at - begin)].first;
    for (double gap : o.gaps) ++seconds[static_cast<int64_t>((at += gap) - begin)].first;
    for (int64_t s = static_cast<int64_t>(o.start - begin); s <= static_cast<int64_t>(o.last - begin); ++s)
      ++seconds[s].second;
  }
  std::pair<double, double> out{0, 0};
  for (const auto& [second, counts] : seconds)
    out = {std::max(out.first, static_cast<double>(counts.first)),
           std::max(out.second, static_cast<double>(counts.second))};
  return out;
}

void row(const char* label, double value, int digits = 2) { printf("%-40s %-10.*f\n", label, digits, value); }

std::string centered(const std::string& text, char fill) {
  size_t left = text.size() < 50 ? (50 - text.size()) / 2 : 0;
  return std::string(left, fill) + text +
         std::string(text.size() + left < 50 ? 50 - text.size() - left : 0, fill);
}

}  // namespace

Json summarise(const ReportOptions& o, const std::vector<Outcome>& outcomes, double begin, double duration) {
  int64_t completed = 0, input = 0, output = 0;
  for (const Outcome& outcome : outcomes)
    if (outcome.ok) ++completed, input += outcome.prompt_tokens, output += outcome.output_tokens;
  auto [peak_tokens, peak_requests] = peaks(outcomes, begin);
  Json result{
      {"duration", duration},
      {"completed", completed},
      {"failed", std::ssize(outcomes) - completed},
      {"total_input_tokens", input},
      {"total_output_tokens", output},
      {"request_throughput", static_cast<double>(completed) / duration},
      {"request_goodput",
       o.goodput.empty() ? Json(nullptr) : Json(static_cast<double>(count_good(o, outcomes)) / duration)},
      {"output_throughput", static_cast<double>(output) / duration},
      {"total_token_throughput", static_cast<double>(input + output) / duration},
      {"max_output_tokens_per_s", peak_tokens},
      {"max_concurrent_requests", peak_requests},
      {"rtfx", 0.0}};
  printf("%s\n", centered(" Serving Benchmark Result ", '=').c_str());
  row("Successful requests:", static_cast<double>(completed), 0);
  row("Failed requests:", static_cast<double>(std::ssize(outcomes) - completed), 0);
  if (o.max_concurrency) row("Maximum request concurrency:", static_cast<double>(o.max_concurrency), 0);
  if (o.request_rate != "inf") row("Request rate configured (RPS):", std::atof(o.request_rate.c_str()));
  row("Benchmark duration (s):", duration);
  row("Total input tokens:", static_cast<double>(input), 0);
  row("Total generated tokens:", static_cast<double>(output), 0);
  row("Request throughput (req/s):", result["request_throughput"]);
  if (!o.goodput.empty()) row("Request goodput (req/s):", result["request_goodput"]);
  row("Output token throughput (tok/s):", result["output_throughput"]);
  row("Peak output token throughput (tok/s):", peak_tokens);
  row("Peak concurrent requests:", peak_requests);
  row("Total token throughput (tok/s):", result["total_token_throughput"]);
  std::vector<std::string> wanted = split(o.percentile_metrics), percents = split(o.metric_percentiles);
  for (const Series& series : series_of(outcomes)) {
    if (std::find(wanted.begin(), wanted.end(), series.key) == wanted.end()) continue;
    printf("%s\n", centered(series.title, '-').c_str());
    auto add = [&](const std::string& name, const std::string& title, double value) {
      result[name + "_" + series.key + "_ms"] = value;
      if (!title.empty()) row((title + " " + series.name + " (ms):").c_str(), value);
    };
    add("mean", "Mean", mean(series.ms));
    add("median", "Median", percentile(series.ms, 50));
    add("std", "", standard_deviation(series.ms));
    for (const std::string& p : percents) add("p" + p, "P" + p, percentile(series.ms, std::atof(p.c_str())));
  }
  printf("%s\n", std::string(50, '=').c_str());
  return result;
}

void add_details(const std::vector<Outcome>& outcomes, Json& result) {
  for (const char* key : {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times",
                          "queue_times", "generated_texts", "errors"})
    result[key] = Json::array();
  for (const Outcome& o : outcomes) {
    result["input_lens"].push_back(o.prompt_tokens);
    result["output_lens"].push_back(o.output_tokens);
    result["ttfts"].push_back(o.ok ? o.ttft() : 0.0);
    result["itls"].push_back(o.gaps);
    result["latencies"].push_back(o.ok ? o.latency() : 0.0);
    result["start_times"].push_back(o.start);
    result["queue_times"].push_back(0.0);
    result["generated_texts"].push_back(o.text);
    result["errors"].push_back(o.error);
  }
}

}  // namespace octavo
