// The "model" of a tokenizer.json: words to ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/tokenizer/span.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/word_cache.h"

namespace octavo::tok {

class JsonView;

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of each word; `cache` belongs to this model and to the calling thread.
  virtual void encode(std::string_view text, const Spans& words, WordCache& cache,
                      std::vector<int32_t>& out) const = 0;
  /// Tokens as the file spells them.
  virtual const Vocab& vocab() const = 0;
};

/// Error if the type is unknown or the file contradicts itself. `bytes`: the words will be raw bytes, the
/// vocabulary is spelled in GPT-2's alphabet; only a BPE model can be asked for it.
std::unique_ptr<Model> make_model(const JsonView& json, bool bytes);
bool model_knows_bytes(const JsonView& json);

std::unique_ptr<Model> make_unigram(const JsonView& json);
std::unique_ptr<Model> make_wordpiece(const JsonView& json);
std::unique_ptr<Model> make_wordlevel(const JsonView& json);

/// {"token": id, ...}
Vocab read_vocab(const JsonView& json);

/// The ids of "<0x00>" ... "<0xFF>", -1 where one is missing.
std::array<int32_t, 256> byte_token_ids(const Vocab& vocab);
/// Appends the ids of all bytes, or nothing (false) if one is missing.
bool append_byte_tokens(std::string_view text, const std::array<int32_t, 256>& byte_ids,
                        std::vector<int32_t>& out);

}  // namespace octavo::tok
