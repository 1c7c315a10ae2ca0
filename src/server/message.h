// HTTP as endpoints see it: a request in, a reply out, at once or over time. No networking here (http.cc has
// that).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octavo {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  ///< "POST"
  std::string path;    ///< percent-decoded, repeated slashes collapsed: "/v1/models"
  std::string query;   ///< without '?'
  Headers headers;     ///< names in lower case
  std::string body;

  /// The first of that name (given in lower case), or empty.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

/// A reply in the making, driven by its connection: advance() after each wake-up and after each completed
/// write, so that a slow reader slows only its own replies. Destroying it before its end (the client went
/// away) aborts the work.
class ReplyWork {
 public:
  enum class State { kWaiting, kMore, kDone };
  virtual ~ReplyWork() = default;
  /// Called once, before the first advance().
  virtual void set_waker(std::function<void()> wake) = 0;
  /// Appends what is ready to `out`: event-stream text, or the body of a whole reply, whose status it may
  /// set. kMore: `out` is full, there is more. Never throws.
  virtual State advance(std::string& out, int& status) = 0;
};

struct Reply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers{};
  std::unique_ptr<ReplyWork> work{};  ///< null: the body is complete
  bool event_stream = false;          ///< work's output is sent as it comes
  const char* route = nullptr;        ///< under which metrics count it; null: they don't
};

/// One request from its last byte read to the last byte of its reply.
struct HttpRecord {
  const char* route;
  std::string method;
  int status;
  size_t request_bytes, reply_bytes;  ///< of the bodies
  double seconds;
};

}  // namespace octavo
