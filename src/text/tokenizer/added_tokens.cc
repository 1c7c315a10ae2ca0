#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "text/tokenizer/char_class.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

bool is_word_before(std::string_view text, size_t at) {
  const char* p = text.data() + at;
  return at > 0 && (char_class(previous_char(p)) & kWord);
}

bool is_word_behind(std::string_view text, size_t at) {
  const char* p = text.data() + at;
  return at < text.size() && (char_class(next_char(p)) & kWord);
}

size_t skip_spaces_back(std::string_view text, size_t at, size_t floor) {
  while (at > floor) {
    const char* p = text.data() + at;
    if (!is_space(previous_char(p))) break;
    at = p - text.data();
  }
  return std::max(at, floor);
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char* p = text.data() + at;
    if (!is_space(next_char(p))) break;
    at = p - text.data();
  }
  return at;
}

}  // namespace

void AddedTokenFinder::add(std::string_view pattern, const AddedToken& token) {
  if (pattern.empty()) return;
  trie_.add(pattern, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  starts_[static_cast<uint8_t>(pattern[0])] = true;
}

const AddedToken* AddedTokenFinder::longest_at(std::string_view text, size_t at, size_t& end) const {
  const AddedToken* best = nullptr;
  uint32_t node = ByteTrie::kRoot;
  for (size_t i = at; i < text.size();) {
    node = trie_.step(node, static_cast<uint8_t>(text[i++]));
    if (node == ByteTrie::kNone) break;
    if (trie_.value(node) >= 0) {
      best = &tokens_[trie_.value(node)];
      end = i;
    }
  }
  return best;
}

void AddedTokenFinder::split(std::string_view text, std::vector<Piece>& out) const {
  size_t done = 0;  // everything before it is in pieces
  const auto push = [&](size_t begin, size_t end, int32_t id) {
    out.push_back({{static_cast<uint32_t>(begin), static_cast<uint32_t>(end)}, id});
  };
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    size_t match_end = 0;
    const AddedToken* token =
        starts_[static_cast<uint8_t>(text[at])] ? longest_at(text, at, match_end) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = match_end;
    at = match_end;  // the search goes on behind the bare match, also behind a refused one
    if (token->single_word && (is_word_before(text, begin) || is_word_behind(text, end))) continue;
    if (token->lstrip) begin = skip_spaces_back(text, begin, std::min(done, begin));
    if (token->rstrip) end = skip_spaces(text, end);
    if (done < begin) push(done, begin, -1);
    push(begin, end, token->id);
    done = end;
  }
  if (done < text.size()) push(done, text.size(), -1);
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  for (const AddedToken& token : tokens_) {
    if (token.special) special_.insert(token.id);
    if (!token.normalized) {
      raw_.add(token.content, token);
      continue;
    }
    std::string pattern = token.content;
    if (normalizer) normalizer->apply(pattern);
    normalized_.add(pattern, token);
    if (pattern != token.content) spellings_[token.id] = pattern;
  }
}

}  // namespace octavo::tok
