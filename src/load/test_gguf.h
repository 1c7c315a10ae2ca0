// For tests: GGUF files put together by hand, faults included.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::test {

template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
inline std::string gguf_string(const std::string& text) { return raw<uint64_t>(text.size()) + text; }

class GgufBytes {
 public:
  GgufBytes& key(const std::string& name, uint32_t type, const std::string& value) {
    keys_ += gguf_string(name) + raw(type) + value;
    ++num_keys_;
    return *this;
  }
  GgufBytes& u32(const std::string& name, uint32_t value) { return key(name, 4, raw(value)); }
  GgufBytes& f32(const std::string& name, float value) { return key(name, 6, raw(value)); }
  GgufBytes& text(const std::string& name, const std::string& value) {
    return key(name, 8, gguf_string(value));
  }
  GgufBytes& texts(const std::string& name, const std::vector<std::string>& values) {
    std::string all = raw<uint32_t>(8) + raw<uint64_t>(values.size());
    for (const std::string& value : values) all += gguf_string(value);
    return key(name, 9, all);
  }
  /// dims innermost first, as the file has them.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                    uint64_t offset) {
    tensors_ += gguf_string(name) + raw<uint32_t>(dims.size());
    for (uint64_t dim : dims) tensors_ += raw(dim);
    tensors_ += raw(type) + raw(offset);
    ++num_tensors_;
    return *this;
  }
  /// Appends F32 values as the next tensor, aligned to 32 bytes.
  GgufBytes& floats(const std::string& name, const std::vector<uint64_t>& dims,
                    const std::vector<float>& values) {
    return stored(name, dims, 0, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }
  /// The same of any type, as the file stores it.
  GgufBytes& stored(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                    std::string_view bytes) {
    tensor(name, dims, type, data_.size());
    data_.append(bytes);
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  GgufBytes& data(const std::string& bytes) {
    data_ += bytes;
    return *this;
  }
  std::string header(uint64_t num_tensors, uint64_t num_keys, uint32_t version = 3) const {
    return "GGUF" + raw(version) + raw(num_tensors) + raw(num_keys) + keys_ + tensors_;
  }
  std::string bytes() const {
    std::string out = header(num_tensors_, num_keys_);
    out.resize((out.size() + 31) / 32 * 32);
    return out + data_;
  }

 private:
  std::string keys_, tensors_, data_;
  uint64_t num_keys_ = 0, num_tensors_ = 0;
};

/// A llama of hidden 8 with 2 heads and 1 KV head, one layer, vocabulary 4: metadata and its two required
/// tensors.
inline GgufBytes tiny_llama() {
  GgufBytes out;
  out.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.embedding_length", 8);
  out.u32("llama.feed_forward_length", 16)
      .u32("llama.attention.head_count", 2)
      .u32("llama.attention.head_count_kv", 1);
  out.u32("llama.context_length", 2048).f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return out.floats("token_embd.weight", {8, 4}, values).floats("blk.0.attn_k.weight", {8, 4}, values);
}

}  // namespace octavo::test
