#include "load/checkpoint.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace octavo {
namespace {

/// Bytes of alignment that reading elements of this type needs. Block types are read bytewise.
size_t alignment(DType dtype) { return info(dtype).block_elements > 1 ? 1 : info(dtype).block_bytes; }

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 12;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kShown) out += str(" and ", names.size() - kShown, " more");
  return out;
}

/// GGUF holds row 2i+j of a head where Hugging Face has row j*half+i (j = 0, 1).
void copy_deinterleaved(const std::byte* from, std::byte* to, int64_t rows, int64_t row_bytes, int heads) {
  int64_t per_head = rows / heads, half = per_head / 2;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t head = row / per_head, within = row % per_head;
    int64_t source = head * per_head + (within % half) * 2 + within / half;
    std::memcpy(to + row * row_bytes, from + source * row_bytes, row_bytes);
  }
}

}  // namespace

const TensorInfo* Checkpoint::find(const std::string& name) const {
  auto it = slots_.find(name);
  return it == slots_.end() ? nullptr : &it->second.entry.info;
}

TensorView Checkpoint::get(const std::string& name) {
  auto it = slots_.find(name);
  if (it == slots_.end()) throw Error(origin_, ": tensor '", name, "' is missing");
  return view(it->second);
}

TensorView Checkpoint::require(const std::string& name, const Shape& shape) {
  auto it = slots_.find(name);
  if (it == slots_.end()) return make_missing(name, shape);
  const TensorInfo& found = it->second.entry.info;
  if (!(found.shape == shape))
    throw Error(found.file, ": tensor '", name, "' has shape ", found.shape.text(), ", expected ",
                shape.text());
  return view(it->second);
}

std::vector<std::string> Checkpoint::finish() const {
  if (!missing_.empty())
    throw Error(origin_, ": ", missing_.size(), " tensors are missing: ", listed(missing_));
  return unused();
}

void Checkpoint::drop_reordered() {
  for (auto& [name, slot] : slots_)
    if (slot.entry.interleaved_heads) slot.copy.reset();
}

std::vector<std::string> Checkpoint::unused() const {
  std::vector<std::string> out;
  for (const auto& [name, slot] : slots_)
    if (!slot.used) out.push_back(name);
  return out;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> out;
  for (const auto& [name, slot] : slots_) out.push_back(name);
  return out;
}

void Checkpoint::add(Entry entry) {
  std::string name = entry.info.name;
  auto [it, fresh] = slots_.try_emplace(name);
  if (!fresh)
    throw Error(entry.info.file, ": tensor '", name, "' appears twice, first in ",
                it->second.entry.info.file);
  it->second.entry = std::move(entry);
}

TensorView Checkpoint::view(Slot& slot) {
  const Entry& entry = slot.entry;
  slot.used = true;
  TensorView out{entry.info.dtype, entry.info.shape, entry.data};
  bool aligned = reinterpret_cast<uintptr_t>(entry.data) % alignment(entry.info.dtype) == 0;
  if (aligned && entry.interleaved_heads == 0) return out;
  if (!slot.copy) {
    const DTypeInfo& type = info(out.dtype);
    const int64_t bytes = out.shape.elements() / type.block_elements * type.block_bytes;
    slot.copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
    if (entry.interleaved_heads)  // of a bias, the rows are single elements
      copy_deinterleaved(entry.data, slot.copy.get(), out.shape[0], bytes / out.shape[0],
                         entry.interleaved_heads);
    else
      std::memcpy(slot.copy.get(), entry.data, bytes);
  }
  out.data = slot.copy.get();
  return out;
}

TensorView Checkpoint::make_missing(const std::string& name, const Shape& shape) {
  if (generator_) {
    TensorView made = generator_(name, shape);
    add({{name, made.dtype, shape, origin_}, made.data, 0});
    slots_.at(name).used = true;
    return made;
  }
  missing_.push_back(name);
  // Untouched anonymous pages all read from the one zero page.
  size_t bytes = std::max<int64_t>(shape.elements() * 2, 1);
  void* zeros = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) throw Error(origin_, ": tensor '", name, "' is missing");
  keep(std::shared_ptr<const void>(zeros, [bytes](const void* p) { munmap(const_cast<void*>(p), bytes); }));
  return {DType::kBF16, shape, static_cast<const std::byte*>(zeros)};
}

Checkpoint open_checkpoint(const std::string& path) {
  return std::filesystem::is_directory(path) ? open_safetensors(path) : open_gguf(path);
}

}  // namespace octavo
