#include "server/server.h"

#include <spdlog/spdlog.h>

#include <chrono>

#include "server/metrics.h"
#include "server/routes.h"

namespace octavo {
namespace {

using std::chrono::milliseconds;

/// The life of one server: serve, drain on a signal, stop.
class Server {
 public:
  Server(Frontend& frontend, ServerOptions options)
      : options_(std::move(options)),
        metrics_(frontend, options_.served_model_names[0]),
        context_{frontend, options_, metrics_,
                 std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count()},
        stats_(frontend),
        http_(
            options_.http, [this](HttpRequest& request) { return dispatch(context_, request); },
            [](int status, const std::string& message) {
              return error_reply(status, "BadRequestError", message);
            },
            [this](const HttpRecord& record) { metrics_.on_http(record); }) {
    frontend.set_observer(&metrics_);
  }
  ~Server() { context_.frontend.set_observer(nullptr); }

  void run(const std::function<void(const std::string&)>& ready) {
    std::string address = http_.listen();
    http_.watch(context_.frontend.wake_fd(), [this] {
      context_.frontend.poll();
      start_stats();
    });
    http_.on_signal([this](int count) { count == 1 ? drain() : abort_and_stop(milliseconds(100)); });
    ready(address);
    http_.run();
  }

 private:
  /// The line every 10 s runs only while there is work: an idle server has no timer.
  void start_stats() {
    if (options_.disable_log_stats || stats_running_) return;
    stats_running_ = true;
    stats_.next(steady_seconds());
    tick_stats();
  }
  void tick_stats() {
    http_.after(stats_interval_, [this] {
      std::string line = stats_.next(steady_seconds());
      stats_running_ = !line.empty() && context_.frontend.active() > 0;
      if (!line.empty()) spdlog::info("{}", line);
      if (stats_running_) tick_stats();
    });
  }

  void drain() {
    context_.draining = true;
    spdlog::info("Shutting down: {} requests in flight, --shutdown-timeout {} s", http_.busy(),
                 options_.shutdown_timeout);
    if (options_.shutdown_timeout <= 0 || http_.busy() == 0) return abort_and_stop(milliseconds(1000));
    deadline_ = steady_seconds() + options_.shutdown_timeout;
    wait_drained();
  }
  void wait_drained() {
    if (http_.busy() == 0) return abort_and_stop(milliseconds(1000));
    if (steady_seconds() >= deadline_) {
      spdlog::warn("--shutdown-timeout is over: aborting {} requests", http_.busy());
      return abort_and_stop(milliseconds(1000));
    }
    http_.after(milliseconds(20), [this] { wait_drained(); });
  }

  /// Streams end with an error event; connections get a moment to send it.
  void abort_and_stop(milliseconds grace) {
    context_.draining = true;
    context_.frontend.abort_all();
    stop_at_ = steady_seconds() + static_cast<double>(grace.count()) / 1000;
    wait_sent();
  }
  void wait_sent() {
    if (http_.busy() == 0 || steady_seconds() >= stop_at_) return http_.stop();
    http_.after(milliseconds(10), [this] { wait_sent(); });
  }

  const ServerOptions options_;
  Metrics metrics_;
  ServerContext context_;
  StatsLine stats_;
  bool stats_running_ = false;
  const milliseconds stats_interval_{10000};
  double deadline_ = 0, stop_at_ = 0;
  HttpServer http_;  // last: its coroutines use all of the above
};

}  // namespace

int run_server(Frontend& frontend, ServerOptions options,
               const std::function<void(const std::string&)>& ready) {
  Server server(frontend, std::move(options));
  server.run(ready);
  return 0;
}

}  // namespace octavo
