// Words already tokenized: most of a text is a few thousand words. Direct-mapped and of fixed size (2 MB), so
// that neither long nor hostile texts make it grow; one per encoding thread, so that no lock is on the path.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "text/tokenizer/hash.h"

namespace octavo::tok {

class WordCache {
 public:
  static constexpr size_t kMaxBytes = 23;  // longest word kept
  static constexpr size_t kMaxIds = 9;

  /// The word, zero padded, its length in the last byte.
  struct Key {
    uint64_t words[3];
  };

  /// One cache line.
  struct alignas(64) Entry {
    Key key;
    int32_t count;
    int32_t ids[kMaxIds];
  };
  static_assert(sizeof(Entry) == 64);

  WordCache() : entries_(new Entry[kEntries]()) {}

  /// word.size() in 1..kMaxBytes; `readable` bytes from its start may be read.
  static Key key_of(std::string_view word, size_t readable) {
    Key key = {};
    if (readable >= sizeof(Key)) {
      std::memcpy(&key, word.data(), sizeof(Key));
      const size_t whole = word.size() / 8;
      key.words[whole] &= (uint64_t{1} << (word.size() % 8 * 8)) - 1;
      for (size_t i = whole + 1; i < 3; ++i) key.words[i] = 0;
    } else {
      std::memcpy(&key, word.data(), word.size());
    }
    key.words[2] |= uint64_t{word.size()} << 56;
    return key;
  }

  /// The entry where this key lives; it holds another word unless holds() says so.
  Entry& entry(const Key& key) {
    return entries_[mix(key.words[0], mix(key.words[1], key.words[2])) & (kEntries - 1)];
  }
  static bool holds(const Entry& entry, const Key& key) {
    return ((entry.key.words[0] ^ key.words[0]) | (entry.key.words[1] ^ key.words[1]) |
            (entry.key.words[2] ^ key.words[2])) == 0;
  }
  static void store(Entry& entry, const Key& key, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    entry.key = key;
    entry.count = static_cast<int32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry.ids);
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 15;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace octavo::tok
