// Byte pair encoding as Hugging Face's "BPE" model does it: a word starts as its characters (or bytes), then
// of all adjacent pairs that have a merge the one of lowest rank, leftmost first, is joined, until none is
// left.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/tokenizer/merges.h"
#include "text/tokenizer/model.h"

namespace octavo::tok {

struct BpeOptions {
  Vocab vocab;
  MergeTable merges;
  int32_t unk_id = -1;         // -1: characters without a token are dropped
  bool fuse_unk = false;       // a run of unknown characters is one unk
  bool byte_fallback = false;  // unknown characters become <0xXX> tokens
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
  bool bytes = false;          // words are raw bytes, the vocabulary is spelled in GPT-2's alphabet
  std::string prefix;          // of each character but a word's first
  std::string suffix;          // of a word's last character
};

class Bpe : public Model {
 public:
  explicit Bpe(BpeOptions options);

  void encode(std::string_view text, const Spans& words, WordCache& cache,
              std::vector<int32_t>& out) const override;
  const Vocab& vocab() const override { return options_.vocab; }

 private:
  void encode_word(std::string_view word, size_t readable, WordCache& cache, std::vector<int32_t>& out) const;
  void encode_uncached(std::string_view word, std::vector<int32_t>& out) const;
  void append_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void append_char_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  size_t next_cut(std::string_view word, size_t from) const;
  void find_cuts();

  BpeOptions options_;
  Vocab raw_vocab_;                     // with `bytes` and ignore_merges: tokens as bytes
  std::array<int32_t, 256> byte_ids_;   // first symbol of a byte: its token, or its <0xXX> token
  std::array<int32_t, 128> ascii_ids_;  // without `bytes`: tokens of single ASCII characters
  bool cuts_before_metaspace_ = false;
  std::unordered_set<char32_t> no_cut_after_;  // characters that some token has in front of a metaspace
};

std::unique_ptr<Model> make_bpe(const JsonView& json, bool bytes);

}  // namespace octavo::tok
