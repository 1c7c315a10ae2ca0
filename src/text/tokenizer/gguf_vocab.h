// The tokenizer that a GGUF file carries, as plain data: the loader fills it from the metadata
// "tokenizer.ggml.*", the text layer builds a Tokenizer from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace octavo {

struct GgufVocab {
  /// Values of "tokenizer.ggml.token_type".
  enum TokenType : int32_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };

  std::string origin;                // file name, for errors
  std::string model;                 // "gpt2" (byte-level BPE) or "llama" (SentencePiece with scores)
  std::string pre;                   // "gpt2" only: name of the pre-tokenizer; empty = "default"
  std::vector<std::string> tokens;   // by id
  std::vector<float> scores;         // "llama": by id
  std::vector<int32_t> token_types;  // by id, or empty: all normal
  std::vector<std::string> merges;   // "gpt2": "left right", by rank
  std::optional<int32_t> bos_id, eos_id, unk_id, pad_id;
  // Absent = the default of the model: "llama" adds BOS and the space prefix, "gpt2" adds BOS for "llama-bpe"
  // only.
  std::optional<bool> add_bos, add_eos, add_space_prefix;
};

}  // namespace octavo
