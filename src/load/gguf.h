// GGUF files, versions 2 and 3, little endian: typed metadata and tensor places. The parser trusts nothing:
// after it, every string, array and tensor lies inside the file, and no allocation is larger than a small
// multiple of the file.
//
//   magic "GGUF", u32 version, u64 tensors, u64 keys, keys {string, u32 type, value}, tensors {string name,
//   u32 dims, u64 dim (innermost first) ..., u32 type, u64 offset}, padding to general.alignment, data. A
//   string is u64 length, bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "load/checkpoint.h"

namespace octavo {

class GgufFile {
 public:
  struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;  ///< outermost first: the file's order reversed
    const std::byte* data;
  };

  /// Maps and parses; Error naming file and key or tensor.
  explicit GgufFile(const std::string& path);
  /// Parses bytes that outlive this object.
  GgufFile(std::span<const std::byte> bytes, std::string origin);

  const std::string& origin() const { return origin_; }
  const std::string& architecture() const { return architecture_; }  ///< general.architecture, e.g. "llama"
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(const std::string& name) const;

  /// Metadata; nothing if the key is absent, Error if its type does not fit.
  bool has(const std::string& key) const { return values_.contains(key); }
  std::optional<int64_t> integer(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;  ///< integers too
  std::optional<bool> boolean(const std::string& key) const;
  std::optional<std::string> text(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<float> floats(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;  ///< a single integer counts as a list of one
  std::vector<std::string> keys() const;

 private:
  struct Value {
    uint32_t type;  ///< of the value, or of the array's elements
    bool array;
    uint64_t count;  ///< elements; 1 if not an array
    const std::byte* data;
  };
  class Parser;
  const Value* find(const std::string& key, bool array) const;
  [[noreturn]] void wrong_type(const std::string& key, const char* expected) const;

  std::string origin_, architecture_;
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, Value> values_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t> by_name_;
};

/// The files of a set: `path` alone, or all parts if it is the first of a split one. Error if it is a later
/// part, or if a part is missing or out of place.
std::vector<GgufFile> open_gguf_parts(const std::string& path);

/// The config of an opened set, as load_gguf_config gives it.
ModelConfig gguf_config(const std::vector<GgufFile>& parts);

/// Its tensors; open_gguf of the path.
Checkpoint gguf_checkpoint(std::vector<GgufFile> parts);

/// The tokenizer's metadata as the file has it. The frontend hands it to text/.
struct GgufTokenizer {
  std::string model,
      pre;  ///< "gpt2" (byte-level BPE), "llama" (SentencePiece), "bert", "t5"; kind of splitting
  std::vector<std::string> tokens;  ///< bytes by id
  std::vector<float> scores;        ///< empty or one per token
  std::vector<int32_t>
      token_types;  ///< empty or one per token: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte
  std::vector<std::string> merges;  ///< "left right"
  std::optional<int32_t> bos_id, eos_id, eot_id, eom_id, unknown_id, separator_id, padding_id, cls_id,
      mask_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix, remove_extra_whitespaces;
  std::string precompiled_charsmap;  ///< bytes, "t5"
  std::optional<std::string> chat_template;
  std::map<std::string, std::string> named_chat_templates;  ///< "tool_use" and the like
};
GgufTokenizer gguf_tokenizer(const GgufFile& file);

}  // namespace octavo
