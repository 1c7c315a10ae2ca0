#include "load/safetensors_writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

size_t group_bytes(const OutputGroup& group) {
  size_t sum = 0;
  for (const OutputTensor& tensor : group.tensors) sum += tensor.bytes();
  return sum;
}

/// A file that is written from front to back and says so when the disk is full.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "wb")) {
    if (!file_) fail();
  }
  ~OutputFile() {
    if (file_) std::fclose(file_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_) != bytes) fail();
  }
  void close() {
    const int failed = std::fclose(std::exchange(file_, nullptr));
    if (failed) fail();
  }

 private:
  [[noreturn]] void fail() const { throw Error(path_, ": cannot be written: ", std::strerror(errno)); }

  std::string path_;
  std::FILE* file_;
};

/// Length and JSON, padded with spaces so that the data is aligned to 8 bytes.
std::string header_of(std::span<const OutputGroup> groups) {
  Json header{{"__metadata__", {{"format", "pt"}}}};
  size_t at = 0;
  for (const OutputGroup& group : groups)
    for (const OutputTensor& tensor : group.tensors) {
      Json shape = Json::array();
      for (int i = 0; i < tensor.shape.rank; ++i) shape.push_back(tensor.shape[i]);
      header[tensor.name] = {
          {"dtype", name(tensor.dtype)}, {"shape", shape}, {"data_offsets", {at, at + tensor.bytes()}}};
      at += tensor.bytes();
    }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);  // little-endian, as all CPUs that we run on
  return out + text;
}

void write_file(const std::string& path, std::span<const OutputGroup> groups,
                const std::function<void(size_t)>& wrote) {
  OutputFile file(path);
  const std::string header = header_of(groups);
  file.write(header.data(), header.size());
  for (const OutputGroup& group : groups) {
    const size_t bytes = group_bytes(group);
    auto data = std::make_unique<std::byte[]>(bytes);
    std::vector<std::byte*> places;
    size_t at = 0;
    for (const OutputTensor& tensor : group.tensors) {
      places.push_back(data.get() + at);
      at += tensor.bytes();
    }
    group.fill(places);
    file.write(data.get(), bytes);
    wrote(bytes);
  }
  file.close();
}

/// Where each shard begins: as many groups as fit, at least one. Ends with groups.size().
std::vector<size_t> cut_shards(const std::vector<OutputGroup>& groups, size_t shard_bytes) {
  std::vector<size_t> out = {0};
  size_t filled = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t bytes = group_bytes(groups[i]);
    if (filled > 0 && filled + bytes > shard_bytes) {
      out.push_back(i);
      filled = 0;
    }
    filled += bytes;
  }
  out.push_back(groups.size());
  return out;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  char out[64];
  std::snprintf(out, sizeof out, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return out;
}

}  // namespace

void write_safetensors(const std::string& folder, const std::vector<OutputGroup>& groups, size_t shard_bytes,
                       const std::function<void(size_t bytes)>& wrote) {
  const std::vector<size_t> cuts = cut_shards(groups, shard_bytes);
  const size_t count = cuts.size() - 1;
  size_t total = 0;
  Json map = Json::object();
  for (size_t shard = 0; shard < count; ++shard) {
    const std::string file = shard_name(shard, count);
    const auto part = std::span(groups).subspan(cuts[shard], cuts[shard + 1] - cuts[shard]);
    write_file(str(folder, "/", file), part, wrote);
    for (const OutputGroup& group : part) {
      total += group_bytes(group);
      for (const OutputTensor& tensor : group.tensors) map[tensor.name] = file;
    }
  }
  if (count == 1) return;
  const std::string index = Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n";
  OutputFile file(folder + "/model.safetensors.index.json");
  file.write(index.data(), index.size());
  file.close();
}

}  // namespace octavo
