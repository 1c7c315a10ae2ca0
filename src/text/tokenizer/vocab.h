// Token strings by id and ids by string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::tok {

class Vocab {
 public:
  /// Ids at or above this are refused: a file of a few bytes must not make us allocate gigabytes.
  static constexpr int64_t kMaxIds = int64_t{1} << 22;

  void reserve(size_t tokens, size_t bytes);
  /// 0 <= id < kMaxIds. The last of two equal tokens owns the string. False if the id already has another
  /// string.
  [[nodiscard]] bool add(std::string_view token, int32_t id);

  /// The id, or -1.
  int32_t find(std::string_view token) const;
  /// The token, or an empty view if no token has this id (any value is allowed).
  std::string_view at(int32_t id) const { return contains(id) ? view(entries_[id]) : std::string_view(); }
  bool contains(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < entries_.size() && entries_[id].used;
  }
  /// All ids are below this.
  int32_t id_bound() const { return static_cast<int32_t>(entries_.size()); }

 private:
  struct Entry {
    uint32_t offset = 0;  // into bytes_
    uint32_t length = 0;
    bool used = false;
  };
  struct Slot {
    uint32_t hash = 0;  // upper half of the string's hash, compared before the string
    int32_t id = -1;    // -1: free
  };

  std::string_view view(const Entry& entry) const {
    return std::string_view(bytes_).substr(entry.offset, entry.length);
  }
  void grow(size_t slots);

  std::string bytes_;
  std::vector<Entry> entries_;  // by id
  std::vector<Slot> slots_;     // open addressing, a power of two, at most half full
  size_t used_slots_ = 0;
};

}  // namespace octavo::tok
