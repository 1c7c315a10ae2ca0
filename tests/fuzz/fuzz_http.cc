// Bytes on a connection: the server's own Connection on one end of a socket pair, the input and then the end
// of the stream from the other.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdlib>
#include <exception>

#include "server/connection.h"

namespace {

using namespace octavo;

constexpr size_t kMaxInput = 64 << 10;  // fits the socket's buffer: one thread writes, then reads

/// Small limits, so that inputs of a few kilobytes reach them.
void set_up(HttpShared& shared) {
  shared.options.max_header_bytes = 2048;
  shared.options.max_header_count = 16;
  shared.options.max_body_bytes = 4096;
  shared.handler = [](HttpRequest& request) {
    if (request.path.find("//") != std::string::npos || request.body.size() > 4096) std::abort();
    Reply reply;
    reply.body = request.method + request.path + request.query;
    return reply;
  };
  shared.refuse = [](int status, const std::string& message) {
    if (status < 400 || status > 499) std::abort();
    Reply reply;
    reply.status = status;
    reply.body = message;
    return reply;
  };
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static HttpShared shared;
  [[maybe_unused]] static const bool ready = (set_up(shared), true);
  int ends[2];
  if (size > kMaxInput || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  if (write(ends[1], data, size) != static_cast<ssize_t>(size)) std::abort();
  shutdown(ends[1], SHUT_WR);
  {
    asio::io_context io{1};
    asio::generic::stream_protocol::socket socket(
        asio::local::stream_protocol::socket(io, asio::local::stream_protocol(), ends[0]));
    Connection connection(std::move(socket), shared);
    asio::co_spawn(io, connection.run(), [](const std::exception_ptr& error) {
      if (error) std::rethrow_exception(error);
    });
    io.run();
  }
  close(ends[1]);
  return 0;
}
