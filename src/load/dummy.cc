#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/dtype.h"
#include "load/checkpoint.h"
#include "load/hf_config.h"

namespace octavo {
namespace {

constexpr size_t kBuffer = 32 << 20;  // bytes of random BF16; a multiple of the page size
constexpr size_t kPage = 4096;

uint64_t mix(uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Uniform in +-0.02 by a counter through a hash: no state from one value to the next, so the loop
/// vectorises.
void fill_random(uint16_t* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    auto x = static_cast<uint32_t>(i) * 0x9e3779b1u;
    x = (x ^ (x >> 15)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    float value = static_cast<float>(static_cast<int32_t>(x ^ (x >> 16))) * (0.02f / 0x1p31f);
    out[i] = to_bf16(value).bits;
  }
}

/// One buffer in a memory file; tensors are windows on it, mapped again and again until they are long enough.
class RandomBuffer {
 public:
  RandomBuffer() : fd_(memfd_create("octavo-dummy", MFD_CLOEXEC)) {
    if (fd_ < 0 || ftruncate(fd_, kBuffer) != 0)
      throw Error("dummy weights: no memory file: ", std::strerror(errno));
    void* base = mmap(nullptr, kBuffer, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (base == MAP_FAILED) throw Error("dummy weights: cannot map: ", std::strerror(errno));
    fill_random(static_cast<uint16_t*>(base), kBuffer / 2);
    munmap(base, kBuffer);
  }
  ~RandomBuffer() {
    for (auto [base, bytes] : windows_) munmap(base, bytes);
    close(fd_);
  }
  RandomBuffer(const RandomBuffer&) = delete;
  RandomBuffer& operator=(const RandomBuffer&) = delete;

  /// `bytes` of random data that start at a page chosen by `seed`.
  const std::byte* window(size_t bytes, uint64_t seed) {
    bytes = std::max((bytes + kPage - 1) / kPage * kPage, kPage);
    size_t offset = mix(seed) % (kBuffer / kPage) * kPage;
    void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw Error("dummy weights: cannot reserve ", bytes, " bytes");
    windows_.emplace_back(base, bytes);
    for (size_t at = 0; at < bytes;) {
      size_t part = std::min(bytes - at, kBuffer - offset);
      void* target = static_cast<std::byte*>(base) + at;
      if (mmap(target, part, PROT_READ, MAP_SHARED | MAP_FIXED, fd_, static_cast<off_t>(offset)) ==
          MAP_FAILED)
        throw Error("dummy weights: cannot map: ", std::strerror(errno));
      at += part;
      offset = 0;
    }
    return static_cast<const std::byte*>(base);
  }

 private:
  int fd_;
  std::vector<std::pair<void*, size_t>> windows_;
};

uint64_t hash_name(const std::string& name) {  // FNV-1a: the same in every build, unlike std::hash
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

}  // namespace

Checkpoint dummy_checkpoint(const ModelConfig& config) {
  Checkpoint out(config.origin + " (dummy weights)");
  auto random = std::make_shared<RandomBuffer>();
  auto constants = std::make_shared<std::vector<std::vector<uint16_t>>>();
  out.keep(random);
  out.keep(constants);
  out.set_generator([random, constants](const std::string& name, const Shape& shape) -> TensorView {
    auto elements = static_cast<size_t>(shape.elements());
    if (shape.rank != 1) return {DType::kBF16, shape, random->window(elements * 2, hash_name(name))};
    uint16_t value = name.ends_with("bias") ? 0 : to_bf16(1.0f).bits;
    constants->emplace_back(elements, value);
    return {DType::kBF16, shape, reinterpret_cast<const std::byte*>(constants->back().data())};
  });
  return out;
}

}  // namespace octavo
