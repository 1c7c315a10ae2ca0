// A set of named tensors of one model, whatever files they come from. Names are Hugging Face's, also for GGUF
// files, so that model code sees one naming.
//
// Life of a load, on one thread: open; `require` everything the model binds; `finish`, which refuses a
// checkpoint with missing tensors and returns the unexpected ones; then pack, in parallel, from the views.
// Views live as long as the Checkpoint.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/tensor.h"

namespace octavo {

struct ModelConfig;

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::string file;  ///< that holds it, for messages
};

class Checkpoint {
 public:
  /// What a parser adds. `data` points into a file given to keep().
  struct Entry {
    TensorInfo info;
    const std::byte* data = nullptr;
    /// > 0: rows come as GGUF stores q and k of `llama`, rotary halves interleaved within each of this many
    /// heads. get() and require() hand them out in Hugging Face's order (a copy, owned here).
    int interleaved_heads = 0;
  };

  explicit Checkpoint(std::string origin) : origin_(std::move(origin)) {}

  /// Null if there is none of that name. A dummy checkpoint knows only what was required: ask the config, not
  /// the checkpoint, whether a model has an optional tensor.
  const TensorInfo* find(const std::string& name) const;

  /// Error naming origin and tensor if it is missing. Marks it used.
  TensorView get(const std::string& name);

  /// The tensor, checked to have this shape (Error naming file, tensor and both shapes). A missing one is
  /// noted for finish() and reads as BF16 zeros until then, so that one run over a model lists all that is
  /// missing.
  TensorView require(const std::string& name, const Shape& shape);

  /// Error listing the tensors that require() did not find; otherwise unused().
  std::vector<std::string> finish() const;

  /// Frees the copies that hold q and k in Hugging Face's order, once they are packed: of an 8 B model in F16
  /// they are 1.3 GB. Their views end; a later get() makes them anew.
  void drop_reordered();

  /// Names never handed out, sorted.
  std::vector<std::string> unused() const;
  std::vector<std::string> names() const;                ///< sorted
  const std::string& origin() const { return origin_; }  ///< folder or file, for messages
  bool is_gguf() const { return is_gguf_; }

  /// For parsers. add: Error if the name is taken. A Generator makes what require() does not find.
  using Generator = std::function<TensorView(const std::string& name, const Shape& shape)>;
  void set_gguf() { is_gguf_ = true; }
  void keep(std::shared_ptr<const void> storage) { storage_.push_back(std::move(storage)); }
  void add(Entry entry);
  void set_generator(Generator generator) { generator_ = std::move(generator); }

 private:
  struct Slot {
    Entry entry;
    bool used = false;
    std::unique_ptr<std::byte[]> copy;  ///< reordered or realigned data, made on first use
  };
  TensorView view(Slot& slot);
  TensorView make_missing(const std::string& name, const Shape& shape);

  std::string origin_;
  bool is_gguf_ = false;
  std::map<std::string, Slot> slots_;  ///< node-based: slots stay where they are
  std::vector<std::string> missing_;
  std::vector<std::shared_ptr<const void>> storage_;  ///< mapped files and buffers behind the views
  Generator generator_;
};

/// A folder with model.safetensors, or with shards and model.safetensors.index.json.
Checkpoint open_safetensors(const std::string& folder);

/// A GGUF file, or the first of a split set (NAME-00001-of-0000N.gguf).
Checkpoint open_gguf(const std::string& file);

/// Either of the two: a folder or a *.gguf file.
Checkpoint open_checkpoint(const std::string& path);

/// --load-format dummy: deterministic BF16 tensors of any name and shape, made on demand from one shared
/// buffer that is mapped as often as needed, so that a model of any size costs no memory and starts at once.
/// Weights are uniform in
/// +-0.02, one-dimensional `weight`s (norms) are 1, one-dimensional biases 0.
Checkpoint dummy_checkpoint(const ModelConfig& config);

}  // namespace octavo
