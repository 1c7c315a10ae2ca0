// Tokens that are found in the text before the model sees it ("added_tokens"): control tokens, chat markers
// and the like. The reference's rules, which decide the ids of the text beside them, hold exactly: leftmost
// longest match, first the tokens that match raw text, then, after the normalizer, those that match
// normalized text.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/span.h"

namespace octavo::tok {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the spaces before it
  bool rstrip = false;       // takes the spaces behind it
  bool normalized = false;   // is looked for after normalization, its content normalized too
  bool special = false;      // decode can leave it out
};

/// Finds tokens of one kind (raw or normalized).
class AddedTokenFinder {
 public:
  struct Piece {
    Span span;
    int32_t id;  // -1: text without a token of this kind
  };

  void add(std::string_view pattern, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }
  /// Appends pieces that cover the text. Cost: text length times the longest partial match at each place.
  void split(std::string_view text, std::vector<Piece>& out) const;

 private:
  const AddedToken* longest_at(std::string_view text, size_t at, size_t& end) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;
  std::array<bool, 256> starts_ = {};  // bytes that begin some token
};

class AddedTokens {
 public:
  /// `normalizer` may be null.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const AddedTokenFinder& raw() const { return raw_; }
  const AddedTokenFinder& normalized() const { return normalized_; }
  bool is_special(int32_t id) const { return special_.contains(id); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// How decode spells the token, empty if as in the vocabulary: the reference shows normalized tokens
  /// normalized.
  std::string_view spelling(int32_t id) const {
    const auto found = spellings_.find(id);
    return found == spellings_.end() ? std::string_view() : found->second;
  }

 private:
  std::vector<AddedToken> tokens_;
  AddedTokenFinder raw_;
  AddedTokenFinder normalized_;
  std::unordered_set<int32_t> special_;
  std::unordered_map<int32_t, std::string> spellings_;
};

}  // namespace octavo::tok
