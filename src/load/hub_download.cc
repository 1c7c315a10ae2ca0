#include "load/hub_download.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/mapped_file.h"
#include "load/hub_http.h"
#include "load/progress.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 5;  // in a row without a new byte
constexpr size_t kSha256Digits = 64, kSha1Digits = 40;

/// A file as the hub describes it.
struct RemoteFile {
  std::string url, etag;
  std::optional<uint64_t> size;
};

/// An open file with an exclusive lock on it, released when this goes.
class FileLock {
 public:
  explicit FileLock(const fs::path& path) {
    fs::create_directories(path.parent_path());
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    int result = fd_ < 0 ? -1 : flock(fd_, LOCK_EX);
    while (result != 0 && fd_ >= 0 && errno == EINTR) result = flock(fd_, LOCK_EX);
    if (result == 0) return;
    int error = errno;
    if (fd_ >= 0) close(fd_);
    throw Error(path.string(), ": cannot lock: ", std::strerror(error));
  }
  ~FileLock() { close(fd_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

class OutputFile {
 public:
  explicit OutputFile(const fs::path& path) : path_(path) {
    fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) throw Error(path.string(), ": cannot write: ", std::strerror(errno));
  }
  ~OutputFile() { close(fd_); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  uint64_t size() const { return static_cast<uint64_t>(lseek(fd_, 0, SEEK_END)); }
  void clear() {
    if (ftruncate(fd_, 0) != 0) throw Error(path_.string(), ": cannot truncate: ", std::strerror(errno));
  }
  void append(const char* data, size_t size) {
    while (size > 0) {
      ssize_t written = write(fd_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw Error(path_.string(), ": cannot write: ", std::strerror(errno));
      data += written;
      size -= static_cast<size_t>(written);
    }
  }

 private:
  fs::path path_;
  int fd_;
};

std::string hex_digest(const EVP_MD* kind, const std::string& prefix, std::span<const std::byte> content) {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  bool fine = EVP_DigestInit_ex(context.get(), kind, nullptr) &&
              EVP_DigestUpdate(context.get(), prefix.data(), prefix.size()) &&
              EVP_DigestUpdate(context.get(), content.data(), content.size()) &&
              EVP_DigestFinal_ex(context.get(), digest, &length);
  OCTAVO_CHECK(fine, "OpenSSL digest");
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", digest[i]);
    out += text;
  }
  return out;
}

/// The hub's ETag is the sha256 of a file in LFS, the git object id of a small one. Others say nothing of the
/// content.
bool content_matches(const fs::path& path, const std::string& etag) {
  bool hex = etag.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex || (etag.size() != kSha256Digits && etag.size() != kSha1Digits)) return true;
  MappedFile file(path.string());
  if (etag.size() == kSha256Digits) return hex_digest(EVP_sha256(), "", file.bytes()) == etag;
  std::string prefix = str("blob ", file.bytes().size()) + '\0';
  return hex_digest(EVP_sha1(), prefix, file.bytes()) == etag;
}

std::string clean_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

std::optional<uint64_t> parse_size(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::stoull(text);
}

bool is_transient(long status) { return status == 0 || status == 408 || status == 429 || status >= 500; }

void back_off(int attempt) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100 << std::min(attempt, 5)));
}

/// Downloads of one snapshot, run by several threads at once.
class Downloader {
 public:
  Downloader(const HubOptions& options, const HubSnapshot& snapshot, const std::vector<std::string>& files)
      : options_(options), snapshot_(snapshot), files_(files), bar_(snapshot.repo, options.progress) {}

  void run() {
    std::vector<std::thread> threads;
    size_t count = std::min<size_t>(std::max(options_.parallel, 1), files_.size());
    for (size_t i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      HttpClient client(options_.token);
      for (size_t i = next_++; i < files_.size() && !stop_; i = next_++) fetch(client, files_[i]);
    } catch (...) {
      // Recorded before the others are told to stop, so that the cause comes first.
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
  }

  void fetch(HttpClient& client, const std::string& file) {
    fs::path root = repo_folder(options_, snapshot_.repo);
    fs::path target = fs::path(snapshot_folder(options_, snapshot_)) / file;
    if (fs::exists(target)) return;
    RemoteFile remote = describe(client, file);
    fs::path blob = root / "blobs" / remote.etag;
    fs::create_directories(blob.parent_path());
    FileLock lock(fs::path(options_.cache) / ".locks" / root.filename() / (remote.etag + ".lock"));
    if (!fs::exists(blob)) {
      fs::path part = blob.string() + ".incomplete";
      download(client, file, remote, part);
      if (!content_matches(part, remote.etag)) {
        fs::remove(part);
        throw Error(file_name(file), ": the content does not match its checksum ", remote.etag);
      }
      fs::rename(part, blob);
    }
    link(blob, target);
  }

  std::string file_name(const std::string& file) const { return snapshot_.repo + "/" + file; }

  RemoteFile describe(HttpClient& client, const std::string& file) {
    std::string url = options_.endpoint + "/" + encode_path(snapshot_.repo) + "/resolve/" + snapshot_.commit +
                      "/" + encode_path(file);
    HttpResponse head = client.head(url);
    for (int i = 1; i < kAttempts && is_transient(head.status) && !stop_; ++i) {
      back_off(i);
      head = client.head(url);
    }
    if (head.status < 200 || head.status >= 400) throw_http_error(file_name(file), head.status, head.failure);
    std::string commit = head.header("x-repo-commit");
    if (!commit.empty() && commit != snapshot_.commit)
      throw Error(file_name(file), ": the hub answers for commit ", commit, ", not ", snapshot_.commit);
    std::string etag = head.header("x-linked-etag"), size = head.header("x-linked-size");
    if (etag.empty()) etag = head.header("etag");
    if (size.empty() && head.status == 200) size = head.header("content-length");
    RemoteFile out{url, clean_etag(etag), parse_size(size)};
    bool name = !out.etag.empty() && out.etag.size() <= 128 && out.etag[0] != '.' &&
                std::all_of(out.etag.begin(), out.etag.end(), [](unsigned char c) {
                  return std::isalnum(c) || c == '-' || c == '_' || c == '.';
                });
    if (!name) throw Error(file_name(file), ": the hub gives no usable ETag");
    return out;
  }

  /// Fills `part` until it is whole, going on where it ends.
  void download(HttpClient& client, const std::string& file, const RemoteFile& remote, const fs::path& part) {
    OutputFile out(part);
    if (remote.size && out.size() > *remote.size) out.clear();
    uint64_t have = out.size();
    if (remote.size) {
      uint64_t room = fs::space(part.parent_path()).available;
      if (room < *remote.size - have)
        throw Error(file_name(file), ": needs ", *remote.size - have, " bytes, ", part.parent_path().string(),
                    " has ", room, " left");
      bar_.add_total(*remote.size);
      bar_.add_done(static_cast<int64_t>(have));
    }
    if (remote.size && *remote.size == 0) return;
    for (int attempt = 0; !(remote.size && out.size() == *remote.size);) {
      uint64_t before = out.size();
      HttpResponse response = attempt_download(client, file, remote, out);
      if (stop_) throw Error(file_name(file), ": download stopped");
      if (response.failure.empty() && !remote.size && response.status < 300) return;
      attempt = out.size() > before ? 0 : attempt + 1;
      bool fatal = response.status >= 400 && response.status != 416 && !is_transient(response.status);
      if (fatal || attempt == kAttempts) throw_http_error(file_name(file), response.status, response.failure);
      if (attempt) back_off(attempt);
    }
  }

  HttpResponse attempt_download(HttpClient& client, const std::string& file, const RemoteFile& remote,
                                OutputFile& out) {
    uint64_t offset = out.size();
    bool first = true;
    // An exception must not cross libcurl's C frames.
    std::exception_ptr failure;
    auto sink = [&](long status, const char* data, size_t size) {
      try {
        // A server that ignores ranges starts anew.
        if (first && status == 200 && offset > 0) restart(out);
        first = false;
        if (remote.size && out.size() + size > *remote.size)
          throw Error(file_name(file), ": the hub sends more than the ", *remote.size, " bytes it announced");
        out.append(data, size);
        bar_.add_done(static_cast<int64_t>(size));
      } catch (...) {
        failure = std::current_exception();
        return false;
      }
      return !stop_;
    };
    HttpResponse response = client.download(remote.url, offset, sink);
    if (failure) std::rethrow_exception(failure);
    if (response.status == 416) restart(out);
    return response;
  }

  void restart(OutputFile& out) {
    bar_.add_done(-static_cast<int64_t>(out.size()));
    out.clear();
  }

  /// Under its final name only when it is whole: a link made aside, then renamed.
  void link(const fs::path& blob, const fs::path& target) {
    fs::create_directories(target.parent_path());
    fs::path aside = target.string() + str(".link-", getpid());
    fs::remove(aside);
    std::error_code error;
    fs::create_symlink(blob.lexically_relative(target.parent_path()), aside, error);
    if (error) fs::create_hard_link(blob, aside);  // file systems without symbolic links
    fs::rename(aside, target);
  }

  const HubOptions& options_;
  const HubSnapshot& snapshot_;
  const std::vector<std::string>& files_;
  ProgressBar bar_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

std::string repo_folder(const HubOptions& options, const std::string& repo) {
  std::string name = "models--";
  for (char c : repo) name += c == '/' ? std::string("--") : std::string(1, c);
  return (fs::path(options.cache) / name).string();
}

std::string snapshot_folder(const HubOptions& options, const HubSnapshot& snapshot) {
  return (fs::path(repo_folder(options, snapshot.repo)) / "snapshots" / snapshot.commit).string();
}

void download_files(const HubOptions& options, const HubSnapshot& snapshot,
                    const std::vector<std::string>& files) {
  std::vector<std::string> missing;
  for (const std::string& file : files) {
    check_file_name(file, snapshot.repo);
    if (!fs::exists(fs::path(snapshot_folder(options, snapshot)) / file)) missing.push_back(file);
  }
  if (missing.empty()) return;
  try {
    Downloader(options, snapshot, missing).run();
  } catch (const fs::filesystem_error& e) {
    throw Error(snapshot.repo, ": ", e.what());
  }
}

void check_file_name(const std::string& name, const std::string& origin) {
  fs::path path(name);
  bool bad =
      name.empty() || name.size() > 512 || name.find('\0') != std::string::npos || path.is_absolute() ||
      std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".." || part == "."; });
  if (bad) throw Error(origin, ": file name '", name.substr(0, 100), "' leaves its folder");
}

void throw_http_error(const std::string& what, long status, const std::string& failure) {
  if (status == 401 || status == 403)
    throw Error(
        what, ": the hub refuses access (", status,
        "): there is no such repository, or it is private or gated and HF_TOKEN is not set or lacks access");
  if (status == 404) throw Error(what, ": not found on the hub (404)");
  if (!failure.empty()) throw Error(what, ": download failed: ", failure);
  throw Error(what, ": the hub answers with status ", status);
}

}  // namespace octavo
