// HTTP requests of `bench serve`: many at once on one thread, event streams read as they come. No Boost in
// this header.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo {

struct HttpTarget {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::string prefix;  ///< path before the endpoint's
  std::vector<std::pair<std::string, std::string>> headers;
};

/// "http://host:port/prefix"; Error otherwise.
HttpTarget parse_base_url(const std::string& url);

struct HttpResult {
  int status = 0;     ///< 0: no reply
  std::string body;   ///< of a reply that is not an event stream
  std::string error;  ///< connection trouble
};

/// One request, waited for.
HttpResult http_call(const HttpTarget& target, const std::string& method, const std::string& path,
                     const std::string& body = "");

struct HttpJob {
  double start = 0;  ///< seconds after the run began
  std::string body;
  std::string request_id;
};

struct HttpRun {
  std::string path;
  size_t max_concurrency = 0;  ///< 0: no limit
  /// The job's first byte is about to be sent.
  std::function<void(size_t job)> on_start;
  /// "data: ..." of an event, without the prefix.
  std::function<void(size_t job, std::string_view data)> on_event;
  std::function<void(size_t job, const HttpResult& result)> on_end;
};

/// Runs all jobs, each as a POST; returns when the last has ended.
void run_http(const HttpTarget& target, const std::vector<HttpJob>& jobs, const HttpRun& run);

}  // namespace octavo
