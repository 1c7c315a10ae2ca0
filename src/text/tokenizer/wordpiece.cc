// WordPiece (BERT): the longest token from the left, again and again; and WordLevel: one word, one token.
#include <algorithm>

#include "text/tokenizer/json_view.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

// Both models need the token for unknown words.
int32_t unk_id(const JsonView& json, const Vocab& vocab) {
  const std::string_view token = json.text_or("unk_token", "[UNK]");
  const int32_t id = vocab.find(token);
  if (id < 0) throw Error(json.where(), ".unk_token: \"", token, "\" is not in the vocabulary");
  return id;
}

class WordPiece : public Model {
 public:
  explicit WordPiece(const JsonView& json)
      : vocab_(read_vocab(json.at("vocab"))),
        unk_id_(unk_id(json, vocab_)),
        prefix_(json.text_or("continuing_subword_prefix", "##")),
        max_chars_(json.integer_or("max_input_chars_per_word", 100)) {
    for (int32_t id = 0; id < vocab_.id_bound(); ++id) longest_ = std::max(longest_, vocab_.at(id).size());
  }

  const Vocab& vocab() const override { return vocab_; }

  void encode(std::string_view text, const Spans& words, WordCache&,
              std::vector<int32_t>& out) const override {
    std::string candidate;
    for (const Span span : words) {
      const size_t before = out.size();
      if (!append_word(slice(text, span), candidate, out)) {
        out.resize(before);
        out.push_back(unk_id_);
      }
    }
  }

 private:
  bool append_word(std::string_view word, std::string& candidate, std::vector<int32_t>& out) const {
    const auto is_lead = [](char c) { return (c & 0xC0) != 0x80; };
    if (std::count_if(word.begin(), word.end(), is_lead) > max_chars_) return false;
    for (size_t from = 0; from < word.size();) {
      candidate.assign(from ? prefix_ : "");
      const size_t prefix_bytes = candidate.size();
      candidate += word.substr(from, longest_);
      int32_t id = -1;
      // Ends inside a character are no tokens, so they need no care.
      while (candidate.size() > prefix_bytes && (id = vocab_.find(candidate)) < 0) candidate.pop_back();
      if (id < 0) return false;
      out.push_back(id);
      from += candidate.size() - prefix_bytes;
    }
    return true;
  }

  Vocab vocab_;
  int32_t unk_id_;
  std::string prefix_;
  int64_t max_chars_;
  size_t longest_ = 1;  // bytes of the longest token: bounds the search
};

class WordLevel : public Model {
 public:
  explicit WordLevel(const JsonView& json)
      : vocab_(read_vocab(json.at("vocab"))), unk_id_(unk_id(json, vocab_)) {}

  const Vocab& vocab() const override { return vocab_; }

  void encode(std::string_view text, const Spans& words, WordCache&,
              std::vector<int32_t>& out) const override {
    for (const Span span : words) {
      const int32_t id = vocab_.find(slice(text, span));
      out.push_back(id >= 0 ? id : unk_id_);
    }
  }

 private:
  Vocab vocab_;
  int32_t unk_id_;
};

}  // namespace

std::unique_ptr<Model> make_wordpiece(const JsonView& json) { return std::make_unique<WordPiece>(json); }
std::unique_ptr<Model> make_wordlevel(const JsonView& json) { return std::make_unique<WordLevel>(json); }

}  // namespace octavo::tok
