// A regular file mapped read-only: pages come from the page cache on first touch, so a checkpoint larger than
// memory can be opened and nothing is copied whole.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace octavo {

class MappedFile {
 public:
  /// Error naming `path` if it cannot be opened or is not a regular file (a FIFO or a device is never read).
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  /// Page-aligned start. Whoever truncates the file while it is mapped makes reads of the lost pages fault:
  /// model files are replaced by rename, never rewritten.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// The whole of a small text file; Error naming `path` if it is unreadable, not regular or longer than
/// `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);

}  // namespace octavo
