#include "server/connection.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <charconv>

namespace octavo {
namespace {

namespace http = beast::http;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
/// Bodies above are parsed and tokenised on the worker, so that they don't hold up running streams.
constexpr size_t kInlineBody = 64 << 10;
constexpr int kClientLeft = 499;  // nginx's status for it
/// Pipelined bytes that are read ahead while a reply is under way.
constexpr size_t kReadAhead = 64 << 10;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return out;
}

void append_chunk(std::string& out, std::string_view data) {
  char size[17];
  auto end = std::to_chars(size, size + sizeof size, data.size(), 16).ptr;
  out.append(size, end).append("\r\n").append(data).append("\r\n");
}

}  // namespace

asio::awaitable<void> Connection::run() {
  while (!close_ && !shared_.stopping) {
    std::optional<HttpRequest> request = co_await read_request();
    if (!request) break;
    ++shared_.busy;
    co_await respond(std::move(*request));
    --shared_.busy;
  }
  beast::error_code ignored;
  socket_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
}

// ---- reading
// ------------------------------------------------------------------------------------------------------------

/// The first byte may take as long as the keep-alive allows, without a parser in memory.
asio::awaitable<bool> Connection::wait_for_data() {
  if (buffer_.size() > 0) co_return true;
  buffer_.shrink_to_fit();
  socket_.expires_after(shared_.options.keep_alive);
  auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
  buffer_.commit(bytes);
  co_return !error;
}

asio::awaitable<std::optional<HttpRequest>> Connection::read_request() {
  if (!co_await wait_for_data()) co_return std::nullopt;
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(shared_.options.max_header_bytes));
  parser.body_limit(shared_.options.max_body_bytes);
  if (!co_await read_head(parser) || !co_await read_body(parser)) co_return std::nullopt;
  std::optional<HttpRequest> request = take(parser);
  if (!request) co_await refuse(400, "Malformed request target.");
  co_return request;
}

asio::awaitable<bool> Connection::read_head(Parser& parser) {
  socket_.expires_after(shared_.options.header_timeout);
  auto [error, bytes] = co_await http::async_read_header(socket_, buffer_, parser, kTuple);
  if (error == http::error::body_limit) {
    co_await refuse(413, "Request body too large: the limit is " +
                             std::to_string(shared_.options.max_body_bytes) + " bytes.");
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    co_await refuse(431, "Request header fields too large.");
  } else if (error && error.category() == http::make_error_code(http::error::bad_version).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    co_await refuse(400, "Invalid HTTP request received: " + error.message() + ".");
  } else if (!error) {
    size_t count = static_cast<size_t>(std::distance(parser.get().begin(), parser.get().end()));
    if (count <= shared_.options.max_header_count) co_return true;
    co_await refuse(431, "Too many request header fields.");
  }
  co_return false;
}

asio::awaitable<bool> Connection::read_body(Parser& parser) {
  if (!parser.is_done() && lower(parser.get()[http::field::expect]) == "100-continue" &&
      buffer_.size() == 0) {
    socket_.expires_after(shared_.options.progress_timeout);
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
  }
  auto deadline = std::chrono::steady_clock::now() + shared_.options.body_timeout;
  while (!parser.is_done()) {
    socket_.expires_after(shared_.options.progress_timeout);
    auto [error, bytes] = co_await http::async_read_some(socket_, buffer_, parser, kTuple);
    if (error == http::error::body_limit) {
      co_await refuse(413, "Request body too large: the limit is " +
                               std::to_string(shared_.options.max_body_bytes) + " bytes.");
      co_return false;
    }
    if (error == http::error::partial_message || error == beast::error::timeout) co_return false;
    if (error) {
      if (error.category() == http::make_error_code(http::error::bad_version).category())
        co_await refuse(400, "Invalid HTTP request received: " + error.message() + ".");
      co_return false;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      co_await refuse(408, "The request body took too long.");
      co_return false;
    }
  }
  co_return true;
}

std::optional<HttpRequest> Connection::take(Parser& parser) {
  auto& message = parser.get();
  HttpRequest out;
  out.method = message.method_string();
  if (!split_target(message.target(), out.path, out.query)) return std::nullopt;
  for (const auto& field : message) out.headers.emplace_back(lower(field.name_string()), field.value());
  out.body = std::move(message.body());
  http10_ = message.version() < 11;
  head_only_ = out.method == "HEAD";
  close_ = !message.keep_alive();
  return out;
}

// ---- replying
// -----------------------------------------------------------------------------------------------------------

asio::awaitable<void> Connection::respond(HttpRequest request) {
  const auto start = std::chrono::steady_clock::now();
  HttpRecord record{nullptr, request.method, 0, request.body.size(), 0, 0};
  Reply reply;
  if (request.body.size() <= kInlineBody) {
    reply = shared_.handler(request);
  } else {
    auto handle = [&]() -> asio::awaitable<Reply> { co_return shared_.handler(request); };
    reply = co_await asio::co_spawn(shared_.worker, handle(), asio::use_awaitable);
  }
  request = {};
  replied_ = false;
  sent_ = 0;
  co_await send(reply);
  if (!replied_) close_ = true;
  if (!reply.route) co_return;
  record.route = reply.route;
  record.status = replied_ ? reply.status : kClientLeft;
  record.reply_bytes = sent_;
  record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  shared_.observe(record);
}

asio::awaitable<void> Connection::send(Reply& reply) {
  using namespace asio::experimental::awaitable_operators;
  if (!reply.work) {
    replied_ = co_await send_whole(reply);
    co_return;
  }
  // The timer is the wake-up: cancelled when there is more to send. It must outlive the work that holds the
  // waker.
  asio::steady_timer wake(co_await asio::this_coro::executor);
  auto work = std::move(reply.work);
  reply.work = std::move(work);
  reply.work->set_waker([&wake] { wake.cancel(); });
  socket_.expires_never();
  co_await (watch_client() || produce(reply, wake));
  reply.work.reset();
}

/// Returns when the client is gone. What it sends meanwhile (pipelining) is kept, up to kReadAhead.
asio::awaitable<void> Connection::watch_client() {
  while (buffer_.size() < kReadAhead) {
    auto [error, bytes] = co_await socket_.async_read_some(buffer_.prepare(4096), kTuple);
    buffer_.commit(bytes);
    if (error) co_return;
  }
  co_await socket_.socket().async_wait(asio::socket_base::wait_error, kTuple);
}

asio::awaitable<void> Connection::produce(Reply& reply, asio::steady_timer& wake) {
  if (reply.event_stream) {
    replied_ = co_await send_events(reply, wake);
    co_return;
  }
  while (reply.work->advance(reply.body, reply.status) == ReplyWork::State::kWaiting) {
    wake.expires_at(asio::steady_timer::time_point::max());
    co_await wake.async_wait(kTuple);
    auto cancelled = (co_await asio::this_coro::cancellation_state).cancelled();
    if (cancelled != asio::cancellation_type::none) co_return;
  }
  replied_ = co_await send_whole(reply);
}

asio::awaitable<bool> Connection::send_events(Reply& reply, asio::steady_timer& wake) {
  std::string wire = head(reply, std::nullopt), events;
  if (http10_) close_ = true;
  if (head_only_) co_return co_await write(wire);
  for (;;) {
    events.clear();
    auto state = reply.work->advance(events, reply.status);
    if (events.empty() && state == ReplyWork::State::kWaiting && wire.empty()) {
      auto interval = shared_.options.sse_keep_alive;
      if (interval.count())
        wake.expires_after(interval);
      else
        wake.expires_at(asio::steady_timer::time_point::max());
      auto [woken] = co_await wake.async_wait(kTuple);
      if ((co_await asio::this_coro::cancellation_state).cancelled() != asio::cancellation_type::none)
        co_return false;
      if (woken) continue;
      events = ": keep-alive\n\n";
    }
    sent_ += events.size();
    if (http10_)
      wire += events;
    else if (!events.empty())
      append_chunk(wire, events);
    bool done = state == ReplyWork::State::kDone;
    if (done && !http10_) wire += "0\r\n\r\n";
    if (!co_await write(wire)) co_return false;
    if (done) co_return true;
    wire.clear();
  }
}

asio::awaitable<bool> Connection::send_whole(const Reply& reply) {
  std::string wire = head(reply, reply.body.size());
  if (!head_only_) wire += reply.body;
  sent_ = head_only_ ? 0 : reply.body.size();
  co_return co_await write(wire);
}

/// For requests that could not be read: the reply, then the end of the connection.
asio::awaitable<void> Connection::refuse(int status, std::string message) {
  close_ = true;
  Reply reply =
      shared_.refuse(status, message);  // named: g++ 12 breaks temporaries in a condition with co_await
  if (co_await send_whole(reply)) co_await linger();
}

/// Closing with unread input would reset the connection, and the client might never see the reply: read for a
/// moment.
asio::awaitable<void> Connection::linger() {
  beast::error_code ignored;
  socket_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
  socket_.expires_after(std::chrono::seconds(2));
  std::string sink(64 << 10, '\0');
  for (size_t left = 64 << 20; left > sink.size();) {
    auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(sink), kTuple);
    if (error) co_return;
    left -= bytes;
  }
}

/// The timeout is for progress: each piece that the client takes renews it.
asio::awaitable<bool> Connection::write(std::string_view data) {
  while (!data.empty()) {
    socket_.expires_after(shared_.options.progress_timeout);
    auto [error, bytes] = co_await socket_.async_write_some(asio::buffer(data.data(), data.size()), kTuple);
    if (error) co_return false;
    data.remove_prefix(bytes);
  }
  co_return true;
}

std::string Connection::head(const Reply& reply, std::optional<size_t> length) const {
  std::string out = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  out += std::string(http::obsolete_reason(static_cast<http::status>(reply.status)));
  out += "\r\nserver: octavo\r\n";
  if (!reply.content_type.empty()) out += "content-type: " + reply.content_type + "\r\n";
  if (length)
    out += "content-length: " + std::to_string(*length) + "\r\n";
  else
    out +=
        http10_ ? "cache-control: no-cache\r\n" : "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n";
  for (const auto& [name, value] : reply.headers) out.append(name).append(": ").append(value).append("\r\n");
  out += close_ || (http10_ && !length) ? "connection: close\r\n"
         : http10_                      ? "connection: keep-alive\r\n"
                                        : "";
  return out + "\r\n";
}

}  // namespace octavo
