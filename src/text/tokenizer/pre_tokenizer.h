// The "pre_tokenizer" of a tokenizer.json: cuts a stretch of text into the words that the model sees one by
// one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer/span.h"

namespace octavo::tok {

class JsonView;

/// A stretch of text on its way through the pre-tokenizers.
struct Pieces {
  std::string_view text;      // the input, or `rewritten`
  Spans spans;                // never empty ones
  bool starts_input = false;  // spans[0] begins where the whole input begins
  std::string rewritten;      // owner of `text` once a step has changed characters
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

/// What "pre_tokenizer" asks for. Where it ends with ByteLevel, that mapping is left out of `steps` and
/// announced instead: a BPE model then works on raw bytes, which saves a pass and a string per word.
struct PreTokenizerPlan {
  std::unique_ptr<PreTokenizer> steps;  // null: the stretch is one word
  bool bytes_at_end = false;
};
PreTokenizerPlan make_pre_tokenizer(const JsonView& json);

/// The mapping left out, for models that do not know bytes.
std::unique_ptr<PreTokenizer> make_byte_level_mapping(std::unique_ptr<PreTokenizer> before);

}  // namespace octavo::tok
