#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace octavo {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // O_NONBLOCK: opening a FIFO for reading must not wait for a writer.
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Error(path, ": cannot open: ", std::strerror(errno));
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    throw Error(path, ": not a regular file");
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    if (data == MAP_FAILED) {
      close(fd);
      throw Error(path, ": cannot map ", size_, " bytes: ", std::strerror(error));
    }
    data_ = static_cast<const std::byte*>(data);
  }
  close(fd);
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

std::string read_text_file(const std::string& path, size_t limit) {
  MappedFile file(path);
  auto bytes = file.bytes();
  if (bytes.size() > limit) throw Error(path, ": ", bytes.size(), " bytes, at most ", limit, " are accepted");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace octavo
