// HTTP for the hub: libcurl, one handle per client, for one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace octavo {

struct HttpResponse {
  long status = 0;                             ///< 0: no answer; see `failure`
  std::map<std::string, std::string> headers;  ///< of the last answer, names in lower case
  std::string body;
  std::string failure;  ///< why the transfer failed or broke off; empty if it did not
  std::string header(const std::string& name) const;
};

class HttpClient {
 public:
  /// The token goes to the host of the URL asked for, never on to another host that it redirects to.
  explicit HttpClient(std::string token);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Follows redirects. A body longer than `limit` is a failure.
  HttpResponse get(const std::string& url, size_t limit);

  /// Follows only redirects within the host: what the hub says of a large file stands in the redirect to its
  /// storage.
  HttpResponse head(const std::string& url);

  /// Body of a 200 or 206 answer to `sink`, from byte `offset` on if the server grants it; `sink` sees the
  /// status first and may refuse by returning false.
  using Sink = std::function<bool(long status, const char* data, size_t size)>;
  HttpResponse download(const std::string& url, uint64_t offset, const Sink& sink);

 private:
  HttpResponse perform(const std::string& url, const Sink& sink);

  void* curl_;
  std::string token_;
};

/// Each segment of a path percent-encoded, slashes kept.
std::string encode_path(const std::string& path);
/// The whole percent-encoded, slashes too.
std::string encode_segment(const std::string& text);

}  // namespace octavo
