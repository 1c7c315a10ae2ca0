// Text to token ids and back, exactly as the Hugging Face fast tokenizer of the same checkpoint does it.
//
//   text -> added tokens cut out -> normalizer -> pre-tokenizer (words) -> model (ids) -> post-processor
//   (BOS, ...) ids -> decoder -> text
//
// A Tokenizer is immutable; all const members may be called from any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/gguf_vocab.h"

namespace octavo {

class Tokenizer {
 public:
  /// From the content of a tokenizer.json. Error, which starts with `origin` (the file's name) and names the
  /// member, if it is not JSON, contradicts itself or has a component of a type that we do not know.
  static std::unique_ptr<Tokenizer> from_json(std::string_view json, const std::string& origin);
  /// From GGUF metadata. Error names what is missing or unknown.
  static std::unique_ptr<Tokenizer> from_vocab(const GgufVocab& vocab);
  ~Tokenizer();

  /// Ids of `text`; text that is not UTF-8 is read with U+FFFD for each ill-formed part. Special tokens
  /// written out in the text are recognised. `add_special_tokens`: what the post-processor adds (BOS, [CLS],
  /// ...).
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  /// Two sequences, as for a cross-encoder.
  std::vector<int32_t> encode_pair(std::string_view first, std::string_view second,
                                   bool add_special_tokens) const;

  /// Valid UTF-8. Ids without a token count as absent.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// The id of a token as the vocabulary spells it (bytes in GPT-2's alphabet, U+2581 for a space), or
  /// nothing.
  std::optional<int32_t> id_of(std::string_view token) const;
  /// The reverse; empty if no token has this id.
  std::string_view token_of(int32_t id) const;
  /// Highest id + 1.
  int32_t vocab_size() const;
  /// Special in the sense of decode's skip_special_tokens; false for ids without a token.
  bool is_special(int32_t id) const;

  /// What the file itself says: GGUF names them; of a tokenizer.json, the special tokens that are put before
  /// and behind a sequence. Where a model has a tokenizer_config.json, that knows better.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  /// Whether encode(text, true) begins with bos_id().
  bool adds_bos() const;

  /// A token's share of a running text, for the Detokenizer: bytes that may begin or end inside a character.
  /// `is_byte`: a <0xXX> token of a vocabulary with byte fallback. Empty for ids without a token.
  std::string_view piece(int32_t id, bool& is_byte) const;
  /// The same for the first token of a text.
  std::string first_piece(int32_t id, bool& is_byte) const;
  /// How many of `character` are dropped at the very start of a text (SentencePiece's prefix space: 1).
  int stripped_at_start(std::string_view& character) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace octavo
