#include "cli/http_client.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <deque>

#include "base/error.h"
#include "cli/event_reader.h"

namespace octavo {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

class Runner {
 public:
  Runner(const HttpTarget& target, const std::vector<HttpJob>& jobs, const HttpRun& run)
      : target_(target), jobs_(jobs), run_(run) {}

  void run() {
    endpoints_ = tcp::resolver(io_).resolve(target_.host, std::to_string(target_.port));
    asio::co_spawn(io_, start_all(), asio::detached);
    io_.run();
  }

 private:
  asio::awaitable<void> start_all() {
    auto begin = std::chrono::steady_clock::now();
    asio::steady_timer timer(io_);
    for (size_t i = 0; i < jobs_.size(); ++i) {
      timer.expires_at(begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                   std::chrono::duration<double>(jobs_[i].start)));
      co_await timer.async_wait(kTuple);
      waiting_.push_back(i);
      start_waiting();
    }
  }

  void start_waiting() {
    while (!waiting_.empty() && (run_.max_concurrency == 0 || running_ < run_.max_concurrency)) {
      ++running_;
      asio::co_spawn(io_, one(waiting_.front()), asio::detached);
      waiting_.pop_front();
    }
  }

  asio::awaitable<void> one(size_t job) {
    HttpResult result;
    if (run_.on_start) run_.on_start(job);
    co_await exchange(job, result);
    if (run_.on_end) run_.on_end(job, result);
    --running_;
    start_waiting();
  }

  http::request<http::string_body> request(const HttpJob& job) const {
    http::request<http::string_body> out(http::verb::post, target_.prefix + run_.path, 11);
    out.set(http::field::host, target_.host);
    out.set(http::field::content_type, "application/json");
    for (const auto& [name, value] : target_.headers) out.set(name, value);
    if (!job.request_id.empty()) out.set("x-request-id", job.request_id);
    out.keep_alive(false);
    out.body() = job.body;
    out.prepare_payload();
    return out;
  }

  asio::awaitable<void> exchange(size_t job, HttpResult& result) {
    beast::tcp_stream stream(io_);
    stream.expires_never();
    auto [connect_error, endpoint] = co_await stream.async_connect(endpoints_, kTuple);
    if (connect_error) co_return fail(result, connect_error);
    auto message = request(jobs_[job]);
    auto [write_error, written] = co_await http::async_write(stream, message, kTuple);
    if (write_error) co_return fail(result, write_error);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    auto [head_error, head_bytes] = co_await http::async_read_header(stream, buffer, parser, kTuple);
    if (head_error) co_return fail(result, head_error);
    result.status = parser.get().result_int();
    bool events = parser.get()[http::field::content_type].starts_with("text/event-stream");
    EventReader reader;
    while (!parser.is_done()) {
      auto [error, bytes] = co_await http::async_read_some(stream, buffer, parser, kTuple);
      if (events && run_.on_event) {
        reader.push(parser.get().body(), [&](std::string_view data) { run_.on_event(job, data); });
        parser.get().body().clear();
      }
      if (error && error != http::error::end_of_stream) co_return fail(result, error);
    }
    result.body = std::move(parser.get().body());
  }

  static void fail(HttpResult& result, const beast::error_code& error) { result.error = error.message(); }

  const HttpTarget& target_;
  const std::vector<HttpJob>& jobs_;
  const HttpRun& run_;
  asio::io_context io_{1};
  tcp::resolver::results_type endpoints_;
  std::deque<size_t> waiting_;
  size_t running_ = 0;
};

}  // namespace

HttpTarget parse_base_url(const std::string& url) {
  if (!url.starts_with("http://")) throw Error("--base-url ", url, ": expected http://HOST:PORT");
  HttpTarget out;
  std::string rest = url.substr(7);
  if (size_t slash = rest.find('/'); slash != rest.npos) {
    out.prefix = rest.substr(slash);
    while (out.prefix.ends_with('/')) out.prefix.pop_back();
    rest.resize(slash);
  }
  out.port = 80;
  if (size_t colon = rest.rfind(':'); colon != rest.npos && rest.find(']', colon) == rest.npos) {
    out.port = std::atoi(rest.c_str() + colon + 1);
    rest.resize(colon);
  }
  if (rest.empty() || out.port < 1 || out.port > 65535)
    throw Error("--base-url ", url, ": expected http://HOST:PORT");
  out.host = rest;
  return out;
}

HttpResult http_call(const HttpTarget& target, const std::string& method, const std::string& path,
                     const std::string& body) {
  HttpResult result;
  try {
    asio::io_context io;
    tcp::resolver resolver(io);
    beast::tcp_stream stream(io);
    stream.connect(resolver.resolve(target.host, std::to_string(target.port)));
    http::request<http::string_body> request(http::string_to_verb(method), target.prefix + path, 11);
    request.set(http::field::host, target.host);
    request.set(http::field::content_type, "application/json");
    for (const auto& [name, value] : target.headers) request.set(name, value);
    request.body() = body;
    request.prepare_payload();
    http::write(stream, request);
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(boost::none);
    http::read(stream, buffer, parser);
    result.status = parser.get().result_int();
    result.body = std::move(parser.get().body());
  } catch (const std::exception& e) {
    result.error = e.what();
  }
  return result;
}

void run_http(const HttpTarget& target, const std::vector<HttpJob>& jobs, const HttpRun& run) {
  try {
    Runner(target, jobs, run).run();
  } catch (const boost::system::system_error& e) {
    throw Error(target.host, ":", target.port, ": ", e.what());
  }
}

}  // namespace octavo
