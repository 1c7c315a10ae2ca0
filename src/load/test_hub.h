// For tests: a hub on two local ports, one for the API and small files, one as the storage that large files
// redirect to.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace octavo::test {

inline std::string digest(const EVP_MD* kind, const std::string& data) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(data.data(), data.size(), bytes, &length, kind, nullptr);
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", bytes[i]);
    out += text;
  }
  return out;
}

struct Request {
  std::string method, path, range, authorization;
};

/// Set the fields before the first request.
class TestHub {
 public:
  std::string repo = "org/tiny", commit = std::string(40, 'c'), token;
  std::map<std::string, std::string> files;  ///< *.safetensors and *.gguf live in the storage
  std::atomic<int> cuts{0};                  ///< storage answers to break off in their middle
  std::atomic<int> busy{0};                  ///< answers to replace by a 503
  bool ranges = true;                        ///< the storage grants ranges
  bool corrupt = false;                      ///< the storage changes a byte

  TestHub() {
    for (int i = 0; i < 2; ++i) {
      listeners_[i] = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t size = sizeof address;
      bind(listeners_[i], reinterpret_cast<sockaddr*>(&address), size);
      listen(listeners_[i], 16);
      getsockname(listeners_[i], reinterpret_cast<sockaddr*>(&address), &size);
      ports_[i] = ntohs(address.sin_port);
      threads_[i] = std::thread([this, i] { serve(i); });
    }
  }
  ~TestHub() { stop(); }

  void stop() {
    for (int i = 0; i < 2; ++i) {
      if (!threads_[i].joinable()) continue;
      shutdown(listeners_[i], SHUT_RDWR);
      threads_[i].join();
      close(listeners_[i]);
    }
  }
  std::string url(int i = 0) const { return "http://127.0.0.1:" + std::to_string(ports_[i]); }
  std::vector<Request> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }
  /// GETs of file contents from the storage.
  std::vector<Request> downloads() {
    std::vector<Request> out;
    for (const Request& r : requests())
      if (r.method == "GET" && r.path.starts_with("/storage/")) out.push_back(r);
    return out;
  }

 private:
  static bool is_large(const std::string& file) {
    return file.ends_with(".safetensors") || file.ends_with(".gguf");
  }

  void serve(int i) {
    std::vector<std::thread> connections;
    for (int fd; (fd = accept(listeners_[i], nullptr, nullptr)) >= 0;)
      connections.emplace_back([this, fd] {
        answer(fd);
        close(fd);
      });
    for (std::thread& connection : connections) connection.join();
  }

  void answer(int fd) {
    std::string text;
    char buffer[4096];
    while (text.find("\r\n\r\n") == std::string::npos) {
      ssize_t count = read(fd, buffer, sizeof buffer);
      if (count <= 0) return;
      text.append(buffer, count);
    }
    auto header = [&](const std::string& name) {
      size_t at = text.find("\r\n" + name + ": ");
      if (at == std::string::npos) return std::string();
      at += name.size() + 4;
      return text.substr(at, text.find("\r\n", at) - at);
    };
    size_t space = text.find(' ');
    Request request{text.substr(0, space), text.substr(space + 1, text.find(' ', space + 1) - space - 1),
                    header("Range"), header("Authorization")};
    {
      std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (busy.fetch_sub(1) > 0) return reply(fd, request, "503 Busy", "", "later");
    route(fd, request);
  }

  void route(int fd, const Request& request) {
    const std::string api = "/api/models/" + repo + "/revision/",
                      resolve = "/" + repo + "/resolve/" + commit + "/";
    const std::string& path = request.path;
    bool storage = path.starts_with("/storage/");
    if (path.starts_with("/old/name/") || path.starts_with("/api/models/old/name/")) {
      std::string moved = path;
      moved.replace(path.find("old/name"), 8, repo);
      return reply(fd, request, "307 Moved", "Location: " + moved + "\r\n", "");
    }
    if (!storage && !token.empty() && request.authorization != "Bearer " + token)
      return reply(fd, request, "401 Unauthorized", "", "no");
    if (path == api + "main" || path == api + "refs%2Fpr%2F1")
      return reply(fd, request, "200 OK", "", listing());
    if (storage) return send_storage(fd, request, path.substr(9));
    if (path.starts_with(resolve) && files.contains(path.substr(resolve.size())))
      return send_file(fd, request, path.substr(resolve.size()));
    reply(fd, request, "404 Not Found", "X-Error-Code: EntryNotFound\r\n", "no such thing");
  }

  std::string listing() const {
    nlohmann::json out = {{"sha", commit}, {"siblings", nlohmann::json::array()}};
    for (const auto& [name, content] : files) out["siblings"].push_back({{"rfilename", name}});
    return out.dump();
  }

  void send_file(int fd, const Request& request, const std::string& name) {
    const std::string& content = files.at(name);
    std::string common = "X-Repo-Commit: " + commit + "\r\n";
    if (is_large(name))
      return reply(fd, request, "302 Found",
                   common + "X-Linked-Etag: \"" + digest(EVP_sha256(), content) +
                       "\"\r\nX-Linked-Size: " + std::to_string(content.size()) + "\r\nLocation: " + url(1) +
                       "/storage/" + name + "\r\n",
                   "moved");
    std::string blob = "blob " + std::to_string(content.size()) + '\0' + content;
    reply(fd, request, "200 OK", common + "ETag: W/\"" + digest(EVP_sha1(), blob) + "\"\r\n", content);
  }

  void send_storage(int fd, const Request& request, const std::string& name) {
    std::string content = files.at(name), extra, status = "200 OK";
    if (corrupt) content[content.size() / 2] ^= 1;
    if (ranges && !request.range.empty()) {
      size_t from = std::stoull(request.range.substr(6));
      extra = "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(content.size() - 1) +
              "/" + std::to_string(content.size()) + "\r\n";
      content = content.substr(from);
      status = "206 Partial Content";
    }
    bool cut = cuts.fetch_sub(1) > 0;
    reply(fd, request, status, extra, content, cut ? content.size() / 2 : content.size());
  }

  void reply(int fd, const Request& request, const std::string& status, const std::string& headers,
             const std::string& body, size_t sent = std::string::npos) {
    std::string out = "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
                      "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    if (request.method != "HEAD") out += body.substr(0, sent);
    for (size_t at = 0; at < out.size();) {
      ssize_t count = send(fd, out.data() + at, out.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return;
      at += count;
    }
  }

  int listeners_[2], ports_[2];
  std::thread threads_[2];
  std::mutex mutex_;
  std::vector<Request> requests_;
};

}  // namespace octavo::test
