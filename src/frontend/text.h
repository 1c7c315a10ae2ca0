// What the frontend needs of a model's text side: tokenizer, detokenizer, chat template. One class so that a
// model without a tokenizer, and the tests, can supply their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/generate.h"

namespace octavo {

/// Turns one sequence's tokens into text as they come; what leaves is always valid UTF-8.
class TextDecoder {
 public:
  virtual ~TextDecoder() = default;
  /// Text that is complete after this token; may be empty.
  virtual std::string push(int32_t token) = 0;
  /// What is left: an incomplete character comes out as U+FFFD.
  virtual std::string finish() = 0;
};

/// All const members may be called from any thread.
class Text {
 public:
  virtual ~Text() = default;
  virtual std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const = 0;
  virtual std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;
  /// Of what follows `prompt`.
  virtual std::unique_ptr<TextDecoder> decoder(std::span<const int32_t> prompt,
                                               bool skip_special_tokens) const = 0;
  /// The bytes that one token stands for, not always valid UTF-8 ("token" and "bytes" of logprobs).
  virtual std::string token_bytes(int32_t id) const = 0;
  /// The vocabulary's spelling of a token, as /tokenize?return_token_strs shows it.
  virtual std::string token_spelling(int32_t id) const = 0;
  virtual std::optional<int32_t> id_of(std::string_view token) const = 0;
  virtual int64_t vocab() const = 0;
  /// Also of one that cannot be used: render() then says why.
  virtual bool has_chat_template() const = 0;
  /// The conversation as text, special tokens written out. ApiError 400 if the template refuses or there is
  /// none.
  virtual std::string render(const ChatPrompt& chat) const = 0;
};

}  // namespace octavo
