#include "load/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.h"

namespace octavo {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF data is read in place");

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
constexpr uint64_t kScalarBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // 0: not a scalar

constexpr uint64_t kMaxKeys = 1 << 16, kMaxTensors = 1 << 20;
constexpr uint64_t kMaxKeyBytes = (1 << 16) - 1;  // the format's own limit
constexpr uint64_t kMaxNameBytes = 1 << 10;
constexpr uint32_t kMaxGgufDims = 4;
constexpr uint64_t kMaxAlignment = 1 << 16;

std::optional<DType> tensor_type(uint32_t type) {
  struct Row {
    uint32_t type;
    DType dtype;
  };
  static constexpr Row kRows[] = {
      {0, DType::kF32},   {1, DType::kF16},   {2, DType::kQ4_0},    {3, DType::kQ4_1},  {6, DType::kQ5_0},
      {7, DType::kQ5_1},  {8, DType::kQ8_0},  {10, DType::kQ2_K},   {11, DType::kQ3_K}, {12, DType::kQ4_K},
      {13, DType::kQ5_K}, {14, DType::kQ6_K}, {20, DType::kIQ4_NL}, {24, DType::kI8},   {25, DType::kI16},
      {26, DType::kI32},  {27, DType::kI64},  {28, DType::kF64},    {30, DType::kBF16}, {39, DType::kMXFP4}};
  for (const Row& row : kRows)
    if (row.type == type) return row.dtype;
  return std::nullopt;
}

template <class T>
T load_as(const std::byte* p) {  // metadata is not aligned
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

std::optional<int64_t> integer_at(uint32_t type, const std::byte* p) {
  switch (type) {
    case kU8:
      return load_as<uint8_t>(p);
    case kI8:
      return load_as<int8_t>(p);
    case kU16:
      return load_as<uint16_t>(p);
    case kI16:
      return load_as<int16_t>(p);
    case kU32:
      return load_as<uint32_t>(p);
    case kI32:
      return load_as<int32_t>(p);
    case kI64:
      return load_as<int64_t>(p);
    case kU64: {
      auto value = load_as<uint64_t>(p);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

/// Printable part of a name from the file, for messages.
std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, 60)) out += c >= ' ' && c < 127 ? c : '?';
  return text.size() > 60 ? out + "..." : out;
}

}  // namespace

/// Reads forward through the bytes; every read is checked against what is left.
class GgufFile::Parser {
 public:
  Parser(GgufFile& out, std::span<const std::byte> bytes) : out_(out), bytes_(bytes) {}

  void run() {
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0)
      fail("is not a GGUF file (no magic)");
    at_ = 4;
    auto version = scalar<uint32_t>();
    if (version != 2 && version != 3)
      fail(str("GGUF version ", version, ", supported: 2 and 3 (little endian)"));
    auto tensors = scalar<uint64_t>(), keys = scalar<uint64_t>();
    if (tensors > kMaxTensors) fail(str(tensors, " tensors, at most ", kMaxTensors));
    if (keys > kMaxKeys) fail(str(keys, " metadata keys, at most ", kMaxKeys));
    for (uint64_t i = 0; i < keys; ++i) read_key();
    out_.architecture_ = out_.text("general.architecture").value_or("");
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) offsets.push_back(read_tensor());
    place_tensors(offsets);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Error(out_.origin_, ": ", what); }

  const std::byte* take(uint64_t count) {
    if (count > bytes_.size() - at_) fail(str("ends at byte ", bytes_.size(), ", within its header"));
    at_ += count;
    return bytes_.data() + at_ - count;
  }

  template <class T>
  T scalar() {
    return load_as<T>(take(sizeof(T)));
  }

  std::string_view string(uint64_t limit, const char* what) {
    auto length = scalar<uint64_t>();
    if (length > limit) fail(str(what, " of ", length, " bytes, at most ", limit));
    return {reinterpret_cast<const char*>(take(length)), length};
  }

  void read_key() {
    std::string key(string(kMaxKeyBytes, "key"));
    if (key.empty()) fail("empty metadata key");
    auto type = scalar<uint32_t>();
    bool array = type == kArray;
    if (array) type = scalar<uint32_t>();
    uint64_t count = array ? scalar<uint64_t>() : 1;
    if (type > kF64 || type == kArray) fail(str("key '", shown(key), "': unknown or nested type ", type));
    Value value{type, array, count, bytes_.data() + at_};
    if (type == kString) {
      // Each takes at least its length, so that a huge count fails before the loop is long.
      if (count > (bytes_.size() - at_) / 8)
        fail(str("key '", shown(key), "': ", count, " strings do not fit"));
      for (uint64_t i = 0; i < count; ++i) string(bytes_.size(), "string");
    } else {
      if (count > (bytes_.size() - at_) / kScalarBytes[type])
        fail(str("key '", shown(key), "': ", count, " values do not fit in the file"));
      take(count * kScalarBytes[type]);
    }
    if (!out_.values_.emplace(key, value).second) fail(str("key '", shown(key), "' appears twice"));
  }

  /// Appends a tensor without data; returns its offset.
  uint64_t read_tensor() {
    Tensor tensor;
    tensor.name = string(kMaxNameBytes, "tensor name");
    std::string where = str("tensor '", shown(tensor.name), "'");
    if (tensor.name.empty()) fail("empty tensor name");
    auto dims = scalar<uint32_t>();
    if (dims == 0 || dims > kMaxGgufDims)
      fail(str(where, ": ", dims, " dimensions, expected 1 to ", kMaxGgufDims));
    tensor.shape.rank = static_cast<int>(dims);
    uint64_t elements = 1;
    for (int i = tensor.shape.rank - 1; i >= 0; --i) {
      auto dim = scalar<uint64_t>();
      if (dim == 0) fail(where + ": a dimension is 0");
      if (__builtin_mul_overflow(elements, dim, &elements) ||
          elements > std::numeric_limits<int64_t>::max() / 16)
        fail(where + ": dimensions overflow");
      tensor.shape.dims[i] = static_cast<int64_t>(dim);
    }
    auto type = scalar<uint32_t>();
    std::optional<DType> dtype = tensor_type(type);
    if (!dtype) fail(str(where, ": unsupported tensor type ", type));
    tensor.dtype = *dtype;
    if (tensor.shape[tensor.shape.rank - 1] % info(*dtype).block_elements)
      fail(str(where, ": rows of ", tensor.shape[tensor.shape.rank - 1], " are not whole ",
               octavo::name(*dtype), " blocks"));
    if (!out_.by_name_.emplace(tensor.name, out_.tensors_.size()).second) fail(where + " appears twice");
    out_.tensors_.push_back(std::move(tensor));
    return scalar<uint64_t>();
  }

  void place_tensors(const std::vector<uint64_t>& offsets) {
    uint64_t alignment = 32;
    if (out_.has("general.alignment")) {
      int64_t given = out_.integer("general.alignment").value_or(0);
      alignment = given > 0 ? static_cast<uint64_t>(given) : 0;
      if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
        fail(str("general.alignment ", given, ", expected a power of two up to ", kMaxAlignment));
    }
    uint64_t start = (at_ + alignment - 1) / alignment * alignment;
    uint64_t room = start < bytes_.size() ? bytes_.size() - start : 0;
    std::vector<std::pair<uint64_t, size_t>> order;
    for (size_t i = 0; i < offsets.size(); ++i) order.emplace_back(offsets[i], i);
    std::sort(order.begin(), order.end());
    uint64_t end = 0;
    for (auto [offset, i] : order) {
      Tensor& tensor = out_.tensors_[i];
      const DTypeInfo& type = info(tensor.dtype);
      uint64_t bytes =
          static_cast<uint64_t>(tensor.shape.elements() / type.block_elements) * type.block_bytes;
      std::string where = str("tensor '", shown(tensor.name), "' at offset ", offset);
      if (offset % alignment) fail(str(where, ": not a multiple of the alignment ", alignment));
      if (offset > room || bytes > room - offset)
        fail(str(where, ": its ", bytes, " bytes pass the end of the file (", room, " bytes of data)"));
      if (offset < end) fail(where + ": overlaps another tensor");
      end = offset + bytes;
      tensor.data = bytes_.data() + start + offset;
    }
  }

  GgufFile& out_;
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

GgufFile::GgufFile(const std::string& path) : origin_(path), file_(std::make_shared<MappedFile>(path)) {
  Parser(*this, file_->bytes()).run();
}

GgufFile::GgufFile(std::span<const std::byte> bytes, std::string origin) : origin_(std::move(origin)) {
  Parser(*this, bytes).run();
}

const GgufFile::Tensor* GgufFile::find_tensor(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

void GgufFile::wrong_type(const std::string& key, const char* expected) const {
  throw Error(origin_, ": metadata key '", shown(key), "': expected ", expected);
}

const GgufFile::Value* GgufFile::find(const std::string& key, bool array) const {
  auto it = values_.find(key);
  if (it == values_.end()) return nullptr;
  if (it->second.array != array) wrong_type(key, array ? "an array" : "a single value");
  return &it->second;
}

std::optional<int64_t> GgufFile::integer(const std::string& key) const {
  const Value* value = find(key, false);
  if (!value) return std::nullopt;
  std::optional<int64_t> number = integer_at(value->type, value->data);
  if (!number) wrong_type(key, "an integer below 2^63");
  return number;
}

std::optional<double> GgufFile::number(const std::string& key) const {
  const Value* value = find(key, false);
  if (!value) return std::nullopt;
  if (value->type == kF32) return load_as<float>(value->data);
  if (value->type == kF64) return load_as<double>(value->data);
  std::optional<int64_t> number = integer_at(value->type, value->data);
  if (!number) wrong_type(key, "a number");
  return static_cast<double>(*number);
}

std::optional<bool> GgufFile::boolean(const std::string& key) const {
  const Value* value = find(key, false);
  if (!value) return std::nullopt;
  if (value->type != kBool) wrong_type(key, "a boolean");
  return load_as<uint8_t>(value->data) != 0;
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
  const Value* value = find(key, false);
  if (!value) return std::nullopt;
  if (value->type != kString) wrong_type(key, "a string");
  return std::string(reinterpret_cast<const char*>(value->data + 8), load_as<uint64_t>(value->data));
}

std::vector<std::string> GgufFile::texts(const std::string& key) const {
  const Value* value = find(key, true);
  if (!value) return {};
  if (value->type != kString) wrong_type(key, "an array of strings");
  std::vector<std::string> out;
  out.reserve(value->count);
  const std::byte* at = value->data;
  for (uint64_t i = 0; i < value->count; ++i) {
    auto length = load_as<uint64_t>(at);
    out.emplace_back(reinterpret_cast<const char*>(at + 8), length);
    at += 8 + length;
  }
  return out;
}

std::vector<float> GgufFile::floats(const std::string& key) const {
  const Value* value = find(key, true);
  if (!value) return {};
  if (value->type != kF32) wrong_type(key, "an array of float32");
  std::vector<float> out(value->count);
  if (value->count) std::memcpy(out.data(), value->data, value->count * sizeof(float));
  return out;
}

std::vector<int64_t> GgufFile::integers(const std::string& key) const {
  auto it = values_.find(key);
  if (it == values_.end()) return {};
  const Value& value = it->second;
  if (kScalarBytes[value.type] == 0) wrong_type(key, "integers");
  std::vector<int64_t> out;
  out.reserve(value.count);
  for (uint64_t i = 0; i < value.count; ++i) {
    std::optional<int64_t> number = integer_at(value.type, value.data + i * kScalarBytes[value.type]);
    if (!number) wrong_type(key, "integers");
    out.push_back(*number);
  }
  return out;
}

std::vector<std::string> GgufFile::keys() const {
  std::vector<std::string> out;
  for (const auto& [key, value] : values_) out.push_back(key);
  return out;
}

namespace {

constexpr int64_t kMaxParts = 1000;

std::string part_suffix(int64_t number, int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05d-of-%05d.gguf", static_cast<int>(number), static_cast<int>(count));
  return text;
}

}  // namespace

std::vector<GgufFile> open_gguf_parts(const std::string& path) {
  std::vector<GgufFile> parts;
  parts.emplace_back(path);
  int64_t count = parts[0].integer("split.count").value_or(1);
  if (count <= 1 && count >= 0) return parts;
  if (count < 0 || count > kMaxParts) throw Error(path, ": split.count ", count, ", at most ", kMaxParts);
  std::string suffix = part_suffix(1, count);
  if (parts[0].integer("split.no").value_or(0) != 0 || !path.ends_with(suffix))
    throw Error(path, ": is part of a split model; give its first file, named *", suffix);
  std::string prefix = path.substr(0, path.size() - suffix.size());
  for (int64_t i = 1; i < count; ++i) {
    GgufFile& part = parts.emplace_back(prefix + part_suffix(i + 1, count));
    if (part.integer("split.no").value_or(-1) != i || part.integer("split.count").value_or(0) != count)
      throw Error(part.origin(), ": split.no and split.count are not ", i, " and ", count);
  }
  size_t tensors = 0;
  for (const GgufFile& part : parts) tensors += part.tensors().size();
  int64_t expected = parts[0].integer("split.tensors.count").value_or(static_cast<int64_t>(tensors));
  if (expected != static_cast<int64_t>(tensors))
    throw Error(path, ": the parts hold ", tensors, " tensors, split.tensors.count says ", expected);
  return parts;
}

}  // namespace octavo
