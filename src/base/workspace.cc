#include "base/workspace.h"

#include <sys/mman.h>

#include <algorithm>

namespace octavo {

// Mapped, not malloc'ed: pages appear when first touched, so a generous capacity costs nothing, and huge
// pages apply.
Workspace::Workspace(size_t capacity) : capacity_((capacity + kAlign - 1) / kAlign * kAlign) {
  void* memory = mmap(nullptr, std::max<size_t>(capacity_, kAlign), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("cannot map ", capacity_, " bytes of workspace");
  madvise(memory, capacity_, MADV_HUGEPAGE);
  base_ = static_cast<std::byte*>(memory);
}

Workspace::~Workspace() { munmap(base_, std::max<size_t>(capacity_, kAlign)); }

void* Workspace::alloc_bytes(size_t bytes) {
  size_t rounded = (bytes + kAlign - 1) / kAlign * kAlign;
  OCTAVO_CHECK(rounded <= capacity_ - used_, "workspace of ", capacity_, " bytes is too small: ", used_,
               " used, ", bytes, " asked");
  void* result = base_ + used_;
  used_ += rounded;
  peak_ = std::max(peak_, used_);
  return result;
}

}  // namespace octavo
