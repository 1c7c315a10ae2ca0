// One HTTP connection as a coroutine. Private to http.cc and connection.cc: this header is slow to compile.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "server/http.h"

namespace octavo {

namespace asio = boost::asio;
namespace beast = boost::beast;

/// What connections share; outlives them.
struct HttpShared {
  HttpOptions options;
  HttpServer::Handler handler;
  HttpServer::Refuse refuse;
  HttpServer::Observe observe;
  asio::thread_pool worker{1};
  int busy = 0;
  size_t connections = 0;
  bool stopping = false;
};

class Connection {
 public:
  using Socket = beast::basic_stream<asio::generic::stream_protocol, asio::any_io_executor>;

  Connection(asio::generic::stream_protocol::socket socket, HttpShared& shared)
      : socket_(std::move(socket)), shared_(shared) {}

  /// Serves requests until the connection ends.
  asio::awaitable<void> run();

 private:
  using Parser = beast::http::request_parser<beast::http::string_body>;

  asio::awaitable<std::optional<HttpRequest>> read_request();
  asio::awaitable<bool> read_head(Parser& parser);
  asio::awaitable<bool> read_body(Parser& parser);
  asio::awaitable<bool> wait_for_data();
  std::optional<HttpRequest> take(Parser& parser);

  asio::awaitable<void> respond(HttpRequest request);
  asio::awaitable<void> send(Reply& reply);
  asio::awaitable<void> produce(Reply& reply, asio::steady_timer& wake);
  asio::awaitable<void> watch_client();
  asio::awaitable<bool> send_events(Reply& reply, asio::steady_timer& wake);
  asio::awaitable<bool> send_whole(const Reply& reply);
  asio::awaitable<void> refuse(int status, std::string message);
  asio::awaitable<bool> write(std::string_view data);
  asio::awaitable<void> linger();
  std::string head(const Reply& reply, std::optional<size_t> length) const;

  Socket socket_;
  HttpShared& shared_;
  beast::flat_buffer buffer_;
  bool close_ = false;  ///< after this reply
  bool http10_ = false, head_only_ = false;
  bool replied_ = false;  ///< the reply under way was sent whole
  size_t sent_ = 0;       ///< bytes of its body
};

}  // namespace octavo
