#include "load/dequantise.h"

#include <cstring>

namespace octavo {
namespace {

template <class T>
void widen(const std::byte* from, int64_t count, float* out) {
  const T* values = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) out[i] = to_float(values[i]);
}

void widen_f16(const uint8_t* from, int64_t count, float* out) {
  widen<Float16>(reinterpret_cast<const std::byte*>(from), count, out);
}

}  // namespace

BlockDecoder row_decoder(DType dtype) { return dtype == DType::kF16 ? widen_f16 : block_decoder(dtype); }

int64_t row_count(const TensorView& tensor) {
  if (tensor.shape.rank < 2) return 1;
  int64_t rows = 1;
  for (int i = 0; i + 1 < tensor.shape.rank; ++i) rows *= tensor.shape[i];
  return rows;
}

bool holds_floats(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || block_decoder(dtype);
}

void dequantise_rows(const TensorView& tensor, int64_t row0, int64_t row1, float* out) {
  OCTAVO_CHECK(0 <= row0 && row0 <= row1 && row1 <= row_count(tensor));
  int64_t columns = tensor.shape.rank ? tensor.shape[tensor.shape.rank - 1] : 1;
  const std::byte* from = tensor.data + row0 * tensor.row_bytes();
  int64_t count = (row1 - row0) * columns;
  if (count == 0) return;
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(out, from, count * sizeof(float));
      return;
    case DType::kF16:
      return widen<Float16>(from, count, out);
    case DType::kBF16:
      return widen<BFloat16>(from, count, out);
    default:
      break;
  }
  BlockDecoder decode = block_decoder(tensor.dtype);
  if (!decode) throw Error("tensor of dtype ", name(tensor.dtype), " does not hold plain weights");
  decode(reinterpret_cast<const uint8_t*>(from), count / info(tensor.dtype).block_elements, out);
}

std::vector<float> dequantise(const TensorView& tensor) {
  std::vector<float> out(tensor.shape.elements());
  dequantise_rows(tensor, 0, row_count(tensor), out.data());
  return out;
}

}  // namespace octavo
