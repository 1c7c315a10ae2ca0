// Bump arena for the activations of one engine step. Sized by a warm-up step at the largest batch, then never
// grown: a step allocates nothing from the heap. Scope restores the mark, so the blocks of a layer reuse one
// another's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"

namespace octavo {

/// Floats from row to row of an activation with n columns. Rows a multiple of 1 KB apart share few sets of
/// the caches, and a tile's outputs evict one another before the next block of K adds to them (a BF16 prefill
/// gains 3 %).
constexpr int64_t padded_width(int64_t n) { return n % 256 ? n : n + 16; }

class Workspace {
 public:
  static constexpr size_t kAlign = 64;  ///< every pointer handed out is cache-line aligned

  explicit Workspace(size_t capacity);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* alloc(size_t count) {
    return static_cast<T*>(alloc_bytes(count * sizeof(T)));
  }
  void* alloc_bytes(size_t bytes);

  size_t used() const { return used_; }
  size_t peak() const { return peak_; }  ///< high-water mark since construction
  size_t capacity() const { return capacity_; }

  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), mark_(workspace.used_) {}
    ~Scope() { workspace_.used_ = mark_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    size_t mark_;
  };

 private:
  std::byte* base_;
  size_t capacity_, used_ = 0, peak_ = 0;
};

}  // namespace octavo
