// SentencePiece's unigram model as Hugging Face's "Unigram" does it: of all ways to cut a word into tokens
// the one with the highest sum of scores. Linear in the text: one step per character and token length.
#include <algorithm>
#include <limits>

#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

constexpr double kUnkPenalty = 10.0;  // below the worst score

class Unigram : public Model {
 public:
  explicit Unigram(const JsonView& json) {
    const JsonView list = json.at("vocab");
    double least = std::numeric_limits<double>::infinity();
    for (simdjson::dom::element item : list.array()) {
      std::string_view token;
      double score = 0;
      const simdjson::dom::array pair = JsonView(item, list.where()).array();
      if (pair.size() != 2 || pair.at(0).get(token) || pair.at(1).get(score)) {
        throw Error(list.where(), "[", scores_.size(), "]: expected [token, score]");
      }
      if (static_cast<int64_t>(scores_.size()) >= Vocab::kMaxIds)
        throw Error(list.where(), ": too many tokens");
      const auto id = static_cast<int32_t>(scores_.size());
      OCTAVO_CHECK(vocab_.add(token, id), "ids rise");
      if (!token.empty()) trie_.add(token, id);
      scores_.push_back(score);
      least = std::min(least, score);
    }
    unk_score_ = least - kUnkPenalty;
    byte_ids_ = byte_token_ids(vocab_);
    byte_fallback_ = json.boolean_or("byte_fallback", false);
    const int64_t unk = json.integer_or("unk_id", -1);
    if (unk < -1 || unk >= static_cast<int64_t>(scores_.size()))
      throw Error(json.where(), ".unk_id: no such token");
    unk_id_ = static_cast<int32_t>(unk);
  }

  const Vocab& vocab() const override { return vocab_; }

  void encode(std::string_view text, const Spans& words, WordCache&,
              std::vector<int32_t>& out) const override {
    std::vector<Node> nodes;
    std::vector<Token> path;
    for (const Span span : words) {
      const std::string_view word = slice(text, span);
      best_path(word, nodes, path);
      append_path(word, path, out);
    }
  }

 private:
  struct Node {  // the best way to reach a byte position
    double score = 0;
    int32_t id = -1;
    uint32_t from = UINT32_MAX;  // UINT32_MAX: not reached
  };
  struct Token {
    Span span;
    int32_t id;
  };

  void best_path(std::string_view word, std::vector<Node>& nodes, std::vector<Token>& path) const {
    nodes.assign(word.size() + 1, Node());
    for (uint32_t at = 0; at < word.size();) {
      const uint32_t next = at + char_length(word[at]);
      bool has_single = false;
      uint32_t node = ByteTrie::kRoot;
      for (uint32_t end = at; end < word.size();) {
        node = trie_.step(node, static_cast<uint8_t>(word[end++]));
        if (node == ByteTrie::kNone) break;
        const int32_t id = trie_.value(node);
        if (id < 0) continue;
        reach(nodes[end], {scores_[id] + nodes[at].score, id, at});
        has_single |= end == next;
      }
      if (!has_single) reach(nodes[next], {unk_score_ + nodes[at].score, unk_id_, at});
      at = next;
    }
    path.clear();
    for (auto end = static_cast<uint32_t>(word.size()); end > 0; end = nodes[end].from) {
      path.push_back({{nodes[end].from, end}, nodes[end].id});
    }
    std::reverse(path.begin(), path.end());
  }
  static void reach(Node& node, const Node& candidate) {
    if (node.from == UINT32_MAX || candidate.score > node.score) node = candidate;
  }

  // A run of unknown characters is one unknown token, or its bytes.
  void append_path(std::string_view word, const std::vector<Token>& path, std::vector<int32_t>& out) const {
    for (size_t i = 0; i < path.size();) {
      Token token = path[i++];
      if (token.id != unk_id_) {
        out.push_back(token.id);
        continue;
      }
      while (i < path.size() && path[i].id == unk_id_) token.span.end = path[i++].span.end;
      const std::string_view text = slice(word, token.span);
      if (const int32_t id = vocab_.find(text); id >= 0) {
        out.push_back(id);
      } else if (!(byte_fallback_ && append_byte_tokens(text, byte_ids_, out)) && unk_id_ >= 0) {
        out.push_back(unk_id_);
      }
    }
  }

  Vocab vocab_;
  ByteTrie trie_;
  std::vector<double> scores_;
  double unk_score_;
  int32_t unk_id_;
  bool byte_fallback_;
  std::array<int32_t, 256> byte_ids_;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const JsonView& json) { return std::make_unique<Unigram>(json); }

}  // namespace octavo::tok
