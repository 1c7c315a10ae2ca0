// Token ids to text, one id at a time, for streaming.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/tokenizer/tokenizer.h"

namespace octavo {

/// The text of a generation as it comes. What push returns is final and valid UTF-8: bytes that may still
/// become a character are held back (at most three). The joined text is that of Tokenizer::decode(prompt +
/// output) behind the prompt's own text, so the first token keeps the space that it would lose at the start
/// of a text; with an empty prompt it is that of decode(output). A prompt that ends inside a character: if
/// the output completes it, the whole character is output; if not, the prompt's bytes are dropped. Nothing
/// else of the prompt can appear. Two deviations from decode, both for broken output only, because text that
/// has left cannot be taken back: after a valid character, a broken byte in the same run of <0xXX> tokens
/// does not spoil that character; and an unfinished character at the very end is one U+FFFD, not one for each
/// of its bytes. Each push costs the size of its token.
class Detokenizer {
 public:
  /// `tokenizer` must outlive this. Special tokens are left out of the text if `skip_special_tokens`.
  Detokenizer(const Tokenizer& tokenizer, std::span<const int32_t> prompt_ids, bool skip_special_tokens);

  std::string push(int32_t id);
  /// What is still held back. Nothing may be pushed afterwards.
  std::string finish();

 private:
  bool is_skipped(int32_t id) const;
  void take_prompt(std::span<const int32_t> prompt_ids);
  void hold(std::string_view bytes, bool is_byte, std::string& out);
  void drain(std::string& out);
  void drop_broken(int bytes, std::string& out);
  void flush_bytes(std::string& out);
  void strip_start(std::string& text);

  const Tokenizer& tokenizer_;
  bool skip_special_tokens_;
  bool is_first_ = true;  // no token has had a part in the text yet
  int strip_left_ = 0;    // of strip_char_, while the text is still empty
  std::string_view strip_char_;
  std::string held_;             // an unfinished character
  size_t held_from_prompt_ = 0;  // its first bytes, which came with the prompt
  bool held_is_byte_ = false;    // it consists of <0xXX> tokens: each broken byte is a U+FFFD
};

}  // namespace octavo
