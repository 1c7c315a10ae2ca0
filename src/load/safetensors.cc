// safetensors: 8 bytes header length (little endian), a JSON header {name: {dtype, shape, data_offsets:
// [begin, end]}}, then the data; offsets count from its start. The tensors must tile the data: no overlap, no
// hole, nothing after.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "load/checkpoint.h"
#include "load/json.h"
#include "load/safetensors.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr int kHeaderDepth = 3;               // header, tensor, array

struct Range {
  uint64_t begin, end;
  std::string name;
};

std::optional<DType> dtype_of(const std::string& text) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DTypeInfo& type = info(static_cast<DType>(i));
    if (type.block_elements == 1 && type.name == text) return static_cast<DType>(i);
  }
  return std::nullopt;
}

/// A JSON value that must be a whole number >= 0.
uint64_t unsigned_value(const json& value, const std::string& where) {
  if (!value.is_number_unsigned()) throw Error(where, ": expected a whole number, found ", value.dump());
  return value.get<uint64_t>();
}

/// Fills the shape; returns the bytes that dtype and shape take.
uint64_t read_shape(const json& list, DType dtype, const std::string& where, Shape& shape) {
  if (!list.is_array()) throw Error(where, ": shape is not an array");
  if (list.size() > kMaxDims) throw Error(where, ": ", list.size(), " dimensions, at most ", kMaxDims);
  uint64_t bytes = info(dtype).block_bytes;
  bool empty = false;
  for (const json& item : list) {
    uint64_t dim = unsigned_value(item, where + ": shape");
    // A dimension of 0 does not excuse the others: rows are multiplied by themselves later.
    if (__builtin_mul_overflow(bytes, std::max<uint64_t>(dim, 1), &bytes) || bytes > INT64_MAX)
      throw Error(where, ": shape overflows");
    empty = empty || dim == 0;
    shape.dims[shape.rank++] = static_cast<int64_t>(dim);
  }
  return empty ? 0 : bytes;
}

Range read_tensor(const std::string& name, const json& item, const std::string& path, uint64_t data_bytes,
                  TensorInfo& out) {
  std::string where = str(path, ": tensor '", name, "'");
  JsonFields fields(item, where);
  std::string type = fields.text({"dtype"}, "");
  std::optional<DType> dtype = dtype_of(type);
  if (!dtype) throw Error(where, ": unknown dtype '", type, "'");
  if (!fields.find({"shape"})) throw Error(where, ": has no shape");
  out = {name, *dtype, {}, path};
  uint64_t bytes = read_shape(*fields.find({"shape"}), *dtype, where, out.shape);

  const json* offsets = fields.find({"data_offsets"});
  if (!offsets || !offsets->is_array() || offsets->size() != 2)
    throw Error(where, ": data_offsets are not two numbers");
  uint64_t begin = unsigned_value((*offsets)[0], where + ": data_offsets");
  uint64_t end = unsigned_value((*offsets)[1], where + ": data_offsets");
  if (begin > end || end > data_bytes)
    throw Error(where, ": data_offsets [", begin, ", ", end, "] do not lie within the ", data_bytes,
                " bytes of data");
  if (end - begin != bytes)
    throw Error(where, ": data_offsets span ", end - begin, " bytes, ", type, " ", out.shape.text(),
                " takes ", bytes);
  return {begin, end, name};
}

void check_tiling(std::vector<Range> ranges, const std::string& path, uint64_t data_bytes) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Range& range : ranges) {
    if (range.begin < at) throw Error(path, ": tensor '", range.name, "' overlaps the one before it");
    if (range.begin > at)
      throw Error(path, ": hole of ", range.begin - at, " bytes before tensor '", range.name, "'");
    at = range.end;
  }
  if (at != data_bytes) throw Error(path, ": ", data_bytes - at, " bytes after the last tensor");
}

/// Whether `inner` lies under `outer`; both canonical.
bool is_under(const fs::path& inner, const fs::path& outer) {
  auto [end, ignored] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return end == outer.end();
}

void add_shards(Checkpoint& out, const fs::path& folder, const fs::path& index) {
  json parsed = read_json(index.string());
  JsonFields fields(parsed, index.string());
  const json* map = fields.find({"weight_map"});
  if (!map || !map->is_object()) throw Error(index.string(), ": has no weight_map");
  std::map<std::string, std::vector<std::string>> shards;  // file -> tensors
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string())
      throw Error(index.string(), ": weight_map of tensor '", tensor, "' is not a file name");
    shards[file.get<std::string>()].push_back(tensor);
  }
  // All names are checked before any shard is opened.
  std::map<std::string, std::string> paths;
  for (const auto& [file, tensors] : shards) paths[file] = shard_path(folder.string(), file, index.string());
  for (const auto& [file, tensors] : shards) {
    add_safetensors_file(out, paths[file]);
    for (const std::string& tensor : tensors)
      if (const TensorInfo* found = out.find(tensor); !found || found->file != paths[file])
        throw Error(paths[file], ": tensor '", tensor, "' is missing (", index.string(), " places it here)");
  }
}

/// The one *.safetensors of a folder that has neither of the standard names.
fs::path single_file(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  if (found.size() == 1) return found[0];
  throw Error(
      folder.string(), ": expected model.safetensors or model.safetensors.index.json",
      found.empty() ? "; there is no *.safetensors file" : "; found several *.safetensors and no index");
}

}  // namespace

std::vector<TensorInfo> parse_safetensors(std::span<const std::byte> file, const std::string& path,
                                          std::vector<const std::byte*>& data) {
  if (file.size() < 8) throw Error(path, ": ", file.size(), " bytes is too short for a safetensors file");
  uint64_t length;
  std::memcpy(&length, file.data(), 8);
  if (length < 2 || length > kMaxHeader || length > file.size() - 8)
    throw Error(path, ": header length ", length, " in a file of ", file.size(), " bytes (limit ", kMaxHeader,
                ")");
  std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  if (text[0] != '{') throw Error(path, ": header does not start with '{'");
  json header = parse_json(text, path, {.depth = kHeaderDepth, .unique_keys = true});
  if (!header.is_object()) throw Error(path, ": header is not a JSON object");

  const std::byte* start = file.data() + 8 + length;
  uint64_t data_bytes = file.size() - 8 - length;
  std::vector<TensorInfo> tensors;
  std::vector<Range> ranges;
  for (const auto& [name, item] : header.items()) {
    if (name == "__metadata__") continue;
    TensorInfo tensor;
    ranges.push_back(read_tensor(name, item, path, data_bytes, tensor));
    tensors.push_back(std::move(tensor));
    data.push_back(start + ranges.back().begin);
  }
  check_tiling(std::move(ranges), path, data_bytes);
  return tensors;
}

void add_safetensors_file(Checkpoint& out, const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  std::vector<const std::byte*> data;
  std::vector<TensorInfo> tensors = parse_safetensors(file->bytes(), path, data);
  for (size_t i = 0; i < tensors.size(); ++i) out.add({std::move(tensors[i]), data[i], 0});
  out.keep(std::move(file));
}

std::string shard_path(const std::string& folder, const std::string& name, const std::string& origin) {
  std::string shown = name.size() > 100 ? name.substr(0, 100) + "..." : name;
  auto refuse = [&](const char* why) { throw Error(origin, ": shard name '", shown, "' ", why); };
  if (name.empty() || name.size() > 255 || name.find('\0') != std::string::npos) refuse("is not a file name");
  fs::path relative(name);
  if (relative.is_absolute()) refuse("is an absolute path");
  for (const fs::path& part : relative)
    if (part == "..") refuse("leaves the model folder");
  std::error_code error;
  fs::path root = fs::canonical(folder, error);
  fs::path target = fs::canonical(fs::path(folder) / relative, error);
  if (error) refuse("does not exist");
  // A snapshot of the Hugging Face cache links to ../../blobs of its own repository, and to nothing else.
  bool in_blobs = root.parent_path().filename() == "snapshots" &&
                  is_under(target, root.parent_path().parent_path() / "blobs");
  if (!is_under(target, root) && !in_blobs) refuse("is a link that leaves the model folder");
  if (!fs::is_regular_file(target, error)) refuse("is not a regular file");
  return (fs::path(folder) / relative).string();
}

Checkpoint open_safetensors(const std::string& folder) {
  fs::path root(folder), whole = root / "model.safetensors", index = root / "model.safetensors.index.json";
  Checkpoint out(folder);
  try {
    if (!fs::is_directory(root)) throw Error(folder, ": not a folder");
    if (fs::exists(whole))
      add_safetensors_file(out, whole.string());
    else if (fs::exists(index))
      add_shards(out, root, index);
    else
      add_safetensors_file(out, single_file(root).string());
  } catch (const fs::filesystem_error& e) {
    throw Error(folder, ": ", e.what());
  }
  return out;
}

}  // namespace octavo
