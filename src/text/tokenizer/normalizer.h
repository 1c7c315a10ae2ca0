// The "normalizer" of a tokenizer.json: rewrites a stretch of text between added tokens.
#pragma once

#include <memory>
#include <string>

namespace octavo::tok {

class JsonView;

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// In place; valid UTF-8 in and out.
  virtual void apply(std::string& text) const = 0;
};

/// Error if the type is unknown.
std::unique_ptr<Normalizer> make_normalizer(const JsonView& json);

/// SentencePiece's compiled character map ("Precompiled"); `charsmap` is the decoded blob.
std::unique_ptr<Normalizer> make_precompiled_normalizer(std::string charsmap, const std::string& where);

}  // namespace octavo::tok
