#include "text/detokenizer.h"

#include <algorithm>

#include "text/tokenizer/utf8.h"

namespace octavo {

using tok::Utf8Prefix;

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const int32_t> prompt_ids,
                         bool skip_special_tokens)
    : tokenizer_(tokenizer), skip_special_tokens_(skip_special_tokens) {
  strip_left_ = tokenizer.stripped_at_start(strip_char_);
  take_prompt(prompt_ids);
}

bool Detokenizer::is_skipped(int32_t id) const {
  return tokenizer_.token_of(id).empty() || (skip_special_tokens_ && tokenizer_.is_special(id));
}

// Replays the prompt's end to learn what it leaves unfinished: a character has at most four bytes, so the
// pieces that hold the last four are enough. The space that a text loses at its start may be lost in the
// prompt's first tokens only.
void Detokenizer::take_prompt(std::span<const int32_t> prompt_ids) {
  size_t begin = prompt_ids.size();
  for (size_t bytes = 0; begin > 0 && bytes < 4; --begin) {
    bool is_byte;
    if (!is_skipped(prompt_ids[begin - 1])) bytes += tokenizer_.piece(prompt_ids[begin - 1], is_byte).size();
  }
  const auto is_used = [&](int32_t id) { return !is_skipped(id); };
  if (std::any_of(prompt_ids.begin(), prompt_ids.begin() + static_cast<ptrdiff_t>(begin), is_used)) {
    is_first_ = false;
    strip_left_ = 0;
  }
  for (const int32_t id : prompt_ids.subspan(begin)) push(id);
  held_from_prompt_ = held_.size();
}

std::string Detokenizer::push(int32_t id) {
  std::string out;
  if (is_skipped(id)) return out;
  bool is_byte = false;
  if (is_first_) {
    hold(tokenizer_.first_piece(id, is_byte), is_byte, out);
  } else {
    const std::string_view piece = tokenizer_.piece(id, is_byte);
    hold(piece, is_byte, out);
  }
  is_first_ = false;
  if (strip_left_ > 0) strip_start(out);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  if (held_.size() > held_from_prompt_) out = tok::kReplacementChar;
  held_.clear();
  held_from_prompt_ = 0;
  return out;
}

void Detokenizer::hold(std::string_view bytes, bool is_byte, std::string& out) {
  if (held_is_byte_ && !is_byte) flush_bytes(out);
  held_is_byte_ = is_byte;
  held_ += bytes;
  drain(out);
}

// Moves everything that is decided from held_ to out.
void Detokenizer::drain(std::string& out) {
  size_t at = 0;
  std::string_view rest = held_;
  const auto consume = [&](size_t n) {
    at += n;
    rest.remove_prefix(n);
    held_from_prompt_ -= std::min(held_from_prompt_, n);
  };
  while (!rest.empty()) {
    const Utf8Prefix prefix = tok::utf8_prefix(rest);
    if (prefix.kind == Utf8Prefix::kIncomplete) break;
    if (prefix.kind == Utf8Prefix::kValid) {
      out += rest.substr(0, prefix.length);
    } else {
      drop_broken(prefix.length, out);
    }
    consume(prefix.length);
  }
  held_.erase(0, at);
}

// The first `bytes` of held_ will not become a character. What the prompt left is the prompt's fault and not
// shown.
void Detokenizer::drop_broken(int bytes, std::string& out) {
  const int own = bytes - static_cast<int>(std::min<size_t>(held_from_prompt_, bytes));
  for (int i = 0; i < (held_is_byte_ ? own : std::min(own, 1)); ++i) out += tok::kReplacementChar;
}

void Detokenizer::flush_bytes(std::string& out) {
  if (!held_.empty()) drop_broken(static_cast<int>(held_.size()), out);
  held_.clear();
  held_from_prompt_ = 0;
}

void Detokenizer::strip_start(std::string& text) {
  while (strip_left_ > 0 && text.starts_with(strip_char_)) {
    text.erase(0, strip_char_.size());
    --strip_left_;
  }
  if (!text.empty()) strip_left_ = 0;
}

}  // namespace octavo
