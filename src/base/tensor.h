// A read-only view of a tensor in a mapped file: row-major, outermost dimension first (as Hugging Face writes
// shapes; GGUF's are reversed on reading).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace octavo {

inline constexpr int kMaxDims = 8;

struct Shape {
  int rank = 0;
  std::array<int64_t, kMaxDims> dims{};

  Shape() = default;
  Shape(std::initializer_list<int64_t> list) {
    OCTAVO_CHECK(list.size() <= kMaxDims);
    for (int64_t d : list) dims[rank++] = d;
  }
  int64_t operator[](int i) const { return dims[i]; }
  int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  bool operator==(const Shape& other) const {
    if (rank != other.rank) return false;
    for (int i = 0; i < rank; ++i)
      if (dims[i] != other.dims[i]) return false;
    return true;
  }
  std::string text() const {  // "[768, 3072]"
    std::string out = "[";
    for (int i = 0; i < rank; ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
    return out + "]";
  }
};

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  /// Bytes of one innermost row (blocks for GGUF's types).
  int64_t row_bytes() const {
    const DTypeInfo& type = info(dtype);
    int64_t columns = shape.rank ? shape[shape.rank - 1] : 1;
    return columns / type.block_elements * type.block_bytes;
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

}  // namespace octavo
