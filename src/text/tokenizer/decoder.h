// The "decoder" of a tokenizer.json: tokens back to text. The reference passes a list of strings from step to
// step; we sort the steps once into three stages, so that a token's part of the text is known alone, which is
// what an incremental detokenizer needs:
//   1. steps that change one token (they may ask whether it is the first),
//   2. how tokens become bytes: as they are, spelled in GPT-2's alphabet, or with <0xXX> tokens for bytes,
//   3. steps on the joined text, of which only the one that strips its start can be streamed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::tok {

class JsonView;

class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::string& token, bool is_first, bool is_last) const = 0;
};

class Decoder {
 public:
  enum class Bytes { kNone, kByteLevel, kByteFallback };

  /// Joins with spaces: what the reference does without a decoder.
  Decoder();
  /// Error if a type is unknown.
  static Decoder from_json(const JsonView& json);

  /// The whole text.
  std::string decode(const std::vector<std::string_view>& tokens) const;

  /// One token's bytes in the stream; `is_byte` if it is a <0xXX> token whose byte may be a part of a
  /// character.
  void append_piece(std::string_view token, bool is_first, std::string& out, bool& is_byte) const;

  Bytes bytes() const { return bytes_; }
  /// Up to this many `stripped_char` at the very start of the text are dropped.
  int stripped_at_start() const { return stripped_at_start_; }
  std::string_view stripped_char() const { return stripped_char_; }

 private:
  using Steps = std::vector<std::shared_ptr<const DecoderStep>>;

  std::string join_fallback(const std::vector<std::string>& tokens) const;

  Steps token_steps_;
  Bytes bytes_ = Bytes::kNone;
  Steps text_steps_;
  int stripped_at_start_ = 0;
  std::string stripped_char_;
  bool joined_ = false;  // a step that joins all tokens has been read
};

/// The byte of a "<0xXX>" token, or -1.
int byte_token_value(std::string_view token);

}  // namespace octavo::tok
