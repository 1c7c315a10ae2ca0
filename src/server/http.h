// HTTP/1.1 over TCP and unix sockets: connections, limits, timeouts, disconnects. One thread runs all
// connections; large requests are parsed and tokenised on a second one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/message.h"

namespace octavo {

struct HttpOptions {
  std::string host;  ///< empty: all addresses
  int port = 8000;   ///< 0: any free one
  std::string unix_socket;
  size_t max_body_bytes = 32u << 20;
  size_t max_header_bytes = 4u << 20;
  size_t max_header_count = 256;
  size_t max_connections = 4096;
  std::chrono::milliseconds keep_alive{5000};  ///< between requests
  std::chrono::milliseconds header_timeout{30000};
  std::chrono::milliseconds progress_timeout{30000};  ///< of one read or write of a body
  std::chrono::seconds body_timeout{600};             ///< for a whole request body
  std::chrono::milliseconds sse_keep_alive{0};        ///< 0: no comments
};

class HttpServer {
 public:
  /// Runs on the HTTP thread, or on the worker for bodies over 64 KiB. Does not throw.
  using Handler = std::function<Reply(HttpRequest&)>;
  /// Errors found before there is a request: status and text.
  using Refuse = std::function<Reply(int status, const std::string& message)>;

  /// On the HTTP thread, for each reply that has a route. A client that left counts as status 499.
  using Observe = std::function<void(const HttpRecord&)>;

  HttpServer(HttpOptions options, Handler handler, Refuse refuse, Observe observe);
  ~HttpServer();

  /// Binds and listens; Error naming the address. Returns what is listened on: "http://0.0.0.0:8000".
  std::string listen();
  int port() const;
  /// Calls `readable` on the HTTP thread whenever the descriptor is.
  void watch(int fd, std::function<void()> readable);
  /// Calls back on the HTTP thread after a delay. For rare things: an idle server must not tick.
  void after(std::chrono::milliseconds delay, std::function<void()> call);
  /// SIGINT and SIGTERM, on the HTTP thread; `count` is 1 for the first.
  void on_signal(std::function<void(int count)> call);
  /// Until stop().
  void run();
  void stop();
  /// Connections with a request in progress.
  int busy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Path and query of a request target, also of an absolute one. False if it is malformed.
bool split_target(std::string_view target, std::string& path, std::string& query);

}  // namespace octavo
