#include "load/hub_http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/error.h"

namespace octavo {
namespace {

constexpr long kConnectSeconds = 15, kStallSeconds = 30, kMaxRedirects = 8;

struct Transfer {
  CURL* curl;
  HttpResponse response;
  const HttpClient::Sink* sink;
};

size_t on_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  std::string line(data, size * count);
  if (line.starts_with("HTTP/"))
    transfer.response.headers.clear();  // the next answer of a chain of redirects
  size_t colon = line.find(':');
  if (colon == std::string::npos) return size * count;
  std::string name = line.substr(0, colon);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  size_t first = line.find_first_not_of(" \t", colon + 1), last = line.find_last_not_of(" \t\r\n");
  transfer.response.headers[name] =
      first == std::string::npos || last < first ? "" : line.substr(first, last - first + 1);
  return size * count;
}

size_t on_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  long status = 0;
  curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
  bool accepted = (*transfer.sink)(status, data, size * count);
  return accepted ? size * count : 0;
}

}  // namespace

std::string HttpResponse::header(const std::string& name) const {
  auto it = headers.find(name);
  return it == headers.end() ? "" : it->second;
}

HttpClient::HttpClient(std::string token) : token_(std::move(token)) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  curl_ = ready == CURLE_OK ? curl_easy_init() : nullptr;
  if (!curl_) throw Error("cannot initialise libcurl");
}

HttpClient::~HttpClient() { curl_easy_cleanup(curl_); }

HttpResponse HttpClient::perform(const std::string& url, const Sink& sink) {
  Transfer transfer{curl_, {}, &sink};
  char why[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(nullptr, curl_slist_free_all);
  if (!token_.empty()) headers.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + token_).c_str()));
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  // libcurl drops a custom Authorization header when a redirect leaves the host, port or scheme.
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl_, CURLOPT_USERAGENT, "octavo");
  curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl_, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl_, CURLOPT_MAXREDIRS, kMaxRedirects);
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, why);
  curl_easy_setopt(curl_, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl_, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &transfer);
  CURLcode code = curl_easy_perform(curl_);
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &transfer.response.status);
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, nullptr);
  if (code != CURLE_OK) transfer.response.failure = *why ? why : curl_easy_strerror(code);
  return std::move(transfer.response);
}

HttpResponse HttpClient::get(const std::string& url, size_t limit) {
  std::string body;
  curl_easy_reset(curl_);
  curl_easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, 1L);
  HttpResponse response = perform(url, [&](long, const char* data, size_t size) {
    if (size > limit - body.size()) return false;
    body.append(data, size);
    return true;
  });
  response.body = std::move(body);
  return response;
}

HttpResponse HttpClient::head(const std::string& url) {
  std::string target = url;
  for (int i = 0;; ++i) {
    curl_easy_reset(curl_);
    curl_easy_setopt(curl_, CURLOPT_NOBODY, 1L);
    HttpResponse response = perform(target, [](long, const char*, size_t) { return true; });
    std::string location = response.header("location");
    bool redirect = response.status >= 300 && response.status < 400;
    if (!redirect || !location.starts_with('/') || location.starts_with("//") || i == kMaxRedirects)
      return response;
    target.resize(target.find('/', target.find("://") + 3));  // scheme and host stay
    target += location;
  }
}

HttpResponse HttpClient::download(const std::string& url, uint64_t offset, const Sink& sink) {
  curl_easy_reset(curl_);
  curl_easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, 1L);
  std::string range = str(offset, "-");
  if (offset > 0) curl_easy_setopt(curl_, CURLOPT_RANGE, range.c_str());
  return perform(url, [&](long status, const char* data, size_t size) {
    return status != 200 && status != 206 ? true : sink(status, data, size);
  });
}

std::string encode_segment(const std::string& text) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (unsigned char c : text) {
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~') {
      out += static_cast<char>(c);
    } else {
      out += '%';
      out += kHex[c >> 4];
      out += kHex[c & 15];
    }
  }
  return out;
}

std::string encode_path(const std::string& path) {
  std::string out;
  for (size_t at = 0; at <= path.size();) {
    size_t slash = std::min(path.find('/', at), path.size());
    out += encode_segment(path.substr(at, slash - at));
    if (slash < path.size()) out += '/';
    at = slash + 1;
  }
  return out;
}

}  // namespace octavo
