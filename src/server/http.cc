#include "server/http.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <list>

#include "base/error.h"
#include "server/connection.h"

namespace octavo {

using asio::ip::tcp;
using Local = asio::local::stream_protocol;

struct HttpServer::Impl {
  // Declared first, so destroyed last: coroutines that are still suspended go with the context, and use
  // shared.
  HttpShared shared;
  asio::io_context io{1};
  std::list<tcp::acceptor> tcp_acceptors;
  std::optional<Local::acceptor> local_acceptor;
  std::list<asio::posix::stream_descriptor> watched;
  std::optional<asio::signal_set> signals;
  int port = 0;
  int signal_count = 0;

  template <class Acceptor>
  asio::awaitable<void> accept(Acceptor& acceptor);
  asio::awaitable<void> serve(asio::generic::stream_protocol::socket socket);
  asio::awaitable<void> watch(asio::posix::stream_descriptor& descriptor, std::function<void()> readable);
  asio::awaitable<void> wait_signals(std::function<void(int)> call);
  void listen_tcp(const tcp::endpoint& endpoint);
};

HttpServer::HttpServer(HttpOptions options, Handler handler, Refuse refuse, Observe observe)
    : impl_(new Impl) {
  impl_->shared.options = std::move(options);
  impl_->shared.handler = std::move(handler);
  impl_->shared.refuse = std::move(refuse);
  impl_->shared.observe = std::move(observe);
}

HttpServer::~HttpServer() {
  impl_->shared.worker.join();
  for (auto& descriptor : impl_->watched) descriptor.release();  // ours to watch, not to close
}

void HttpServer::Impl::listen_tcp(const tcp::endpoint& endpoint) {
  tcp::acceptor acceptor(io);
  acceptor.open(endpoint.protocol());
  acceptor.set_option(tcp::acceptor::reuse_address(true));
  if (endpoint.address().is_v6() && endpoint.address().is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false));
  acceptor.bind(endpoint);
  acceptor.listen(2048);
  port = acceptor.local_endpoint().port();
  tcp_acceptors.push_back(std::move(acceptor));
  asio::co_spawn(io, accept(tcp_acceptors.back()), asio::detached);
}

std::string HttpServer::listen() {
  const HttpOptions& options = impl_->shared.options;
  if (!options.unix_socket.empty()) {
    struct stat status;
    if (::stat(options.unix_socket.c_str(), &status) == 0 && S_ISSOCK(status.st_mode))
      ::unlink(options.unix_socket.c_str());
    try {
      impl_->local_acceptor.emplace(impl_->io, Local::endpoint(options.unix_socket));
    } catch (const std::exception& e) {
      throw Error("--uds ", options.unix_socket, ": ", e.what());
    }
    asio::co_spawn(impl_->io, impl_->accept(*impl_->local_acceptor), asio::detached);
    return "unix:" + options.unix_socket;
  }
  std::string shown = options.host.empty() ? "0.0.0.0" : options.host;
  try {
    if (options.host.empty()) {
      try {
        impl_->listen_tcp({tcp::v6(), static_cast<uint16_t>(options.port)});  // both families
      } catch (const boost::system::system_error& e) {
        if (e.code() == asio::error::address_in_use) throw;
        impl_->listen_tcp({tcp::v4(), static_cast<uint16_t>(options.port)});
      }
    } else {
      tcp::resolver resolver(impl_->io);
      auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive);
      impl_->listen_tcp(*found.begin());
    }
  } catch (const std::exception& e) {
    throw Error("cannot listen on ", shown, " port ", options.port, ": ", e.what());
  }
  return "http://" + (shown.find(':') == shown.npos ? shown : "[" + shown + "]") + ":" +
         std::to_string(impl_->port);
}

int HttpServer::port() const { return impl_->port; }

template <class Acceptor>
asio::awaitable<void> HttpServer::Impl::accept(Acceptor& acceptor) {
  for (;;) {
    auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted) co_return;
    if (error || shared.connections >= shared.options.max_connections) {
      // Out of descriptors or connections: the backlog waits a moment, as busy accepting would help nobody.
      socket.close();
      asio::steady_timer pause(io, std::chrono::milliseconds(50));
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    if constexpr (std::is_same_v<Acceptor, tcp::acceptor>) {
      beast::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
    }
    asio::co_spawn(io, serve(asio::generic::stream_protocol::socket(std::move(socket))), asio::detached);
  }
}

asio::awaitable<void> HttpServer::Impl::serve(asio::generic::stream_protocol::socket socket) {
  struct Count {
    size_t& n;
    explicit Count(size_t& count) : n(count) { ++n; }
    ~Count() { --n; }
  } count(shared.connections);
  Connection connection(std::move(socket), shared);
  co_await connection.run();
}

void HttpServer::watch(int fd, std::function<void()> readable) {
  auto& descriptor = impl_->watched.emplace_back(impl_->io, fd);
  asio::co_spawn(impl_->io, impl_->watch(descriptor, std::move(readable)), asio::detached);
}

asio::awaitable<void> HttpServer::Impl::watch(asio::posix::stream_descriptor& descriptor,
                                              std::function<void()> readable) {
  for (;;) {
    auto [error] = co_await descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                                  asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    readable();
  }
}

void HttpServer::after(std::chrono::milliseconds delay, std::function<void()> call) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->io, delay);
  timer->async_wait([timer, call = std::move(call)](beast::error_code error) {
    if (!error) call();
  });
}

void HttpServer::on_signal(std::function<void(int)> call) {
  impl_->signals.emplace(impl_->io, SIGINT, SIGTERM);
  asio::co_spawn(impl_->io, impl_->wait_signals(std::move(call)), asio::detached);
}

asio::awaitable<void> HttpServer::Impl::wait_signals(std::function<void(int)> call) {
  for (;;) {
    auto [error, number] = co_await signals->async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    call(++signal_count);
  }
}

void HttpServer::run() { impl_->io.run(); }

void HttpServer::stop() {
  impl_->shared.stopping = true;
  impl_->io.stop();
  if (!impl_->shared.options.unix_socket.empty()) ::unlink(impl_->shared.options.unix_socket.c_str());
}

int HttpServer::busy() const { return impl_->shared.busy; }

}  // namespace octavo
