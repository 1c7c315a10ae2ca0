#include "text/tokenizer/bpe.h"

#include <algorithm>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581, a space in SentencePiece vocabularies

}  // namespace

Bpe::Bpe(BpeOptions options) : options_(std::move(options)) {
  const Vocab& vocab = options_.vocab;
  if (options_.bytes) {
    std::string spelled;
    for (int b = 0; b < 256; ++b) {
      spelled.clear();
      append_char(byte_level_char(static_cast<uint8_t>(b)), spelled);
      byte_ids_[b] = vocab.find(spelled);
    }
    std::string raw;
    for (int32_t id = 0; options_.ignore_merges && id < vocab.id_bound(); ++id) {
      raw.clear();
      if (vocab.find(vocab.at(id)) == id && append_byte_level_decoded(vocab.at(id), raw)) {
        OCTAVO_CHECK(raw_vocab_.add(raw, id), "ids rise");
      }
    }
  } else {
    byte_ids_ = byte_token_ids(vocab);
    find_cuts();
  }
  for (int c = 0; c < 128; ++c) ascii_ids_[c] = vocab.find(std::string(1, static_cast<char>(c)));
}

// SentencePiece models see a whole text as one word. But no token reaches over a metaspace from the left,
// with few exceptions that the vocabulary itself shows, and merges on both sides of such a place never meet;
// so the text may be cut there, and its words be cached, without changing one id.
void Bpe::find_cuts() {
  const Vocab& vocab = options_.vocab;
  cuts_before_metaspace_ = !options_.ignore_merges && options_.prefix.empty() && options_.suffix.empty() &&
                           vocab.find(kMetaspace) >= 0;
  for (int32_t id = 0; cuts_before_metaspace_ && id < vocab.id_bound(); ++id) {
    const std::string_view token = vocab.at(id);
    for (size_t at = token.find(kMetaspace, 1); at < token.size(); at = token.find(kMetaspace, at + 1)) {
      const char* p = token.data() + at;
      no_cut_after_.insert(previous_char(p));
    }
  }
}

// Where the part of the word that starts at `from` ends.
size_t Bpe::next_cut(std::string_view word, size_t from) const {
  if (!cuts_before_metaspace_) return word.size();
  for (size_t at = word.find(kMetaspace, from + 1); at != word.npos; at = word.find(kMetaspace, at + 1)) {
    const char* p = word.data() + at;
    if (!no_cut_after_.contains(previous_char(p))) return at;
  }
  return word.size();
}

void Bpe::encode(std::string_view text, const Spans& words, WordCache& cache,
                 std::vector<int32_t>& out) const {
  for (const Span span : words) {
    const std::string_view word = slice(text, span);
    for (size_t from = 0; from < word.size();) {
      const size_t to = next_cut(word, from);
      encode_word(word.substr(from, to - from), text.size() - span.begin - from, cache, out);
      from = to;
    }
  }
}

void Bpe::encode_word(std::string_view word, size_t readable, WordCache& cache,
                      std::vector<int32_t>& out) const {
  if (word.size() > WordCache::kMaxBytes) return encode_uncached(word, out);
  const WordCache::Key key = WordCache::key_of(word, readable);
  WordCache::Entry& entry = cache.entry(key);
  if (WordCache::holds(entry, key)) {
    out.insert(out.end(), entry.ids, entry.ids + entry.count);
    return;
  }
  const size_t before = out.size();
  encode_uncached(word, out);
  WordCache::store(entry, key, std::span(out).subspan(before));
}

void Bpe::encode_uncached(std::string_view word, std::vector<int32_t>& out) const {
  if (options_.ignore_merges) {
    const int32_t id = (options_.bytes ? raw_vocab_ : options_.vocab).find(word);
    if (id >= 0) {
      out.push_back(id);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  append_symbols(word, symbols);
  merge_symbols(options_.merges, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

void Bpe::append_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  if (!options_.bytes || !options_.prefix.empty() || !options_.suffix.empty()) {
    return append_char_symbols(word, symbols);
  }
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(byte)];
    const int32_t symbol = id >= 0 ? id : options_.unk_id;
    const bool fused = id < 0 && options_.fuse_unk && !symbols.empty() && symbols.back() == symbol;
    if (symbol >= 0 && !fused) symbols.push_back(symbol);
  }
}

void Bpe::append_char_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  bool unk_pending = false;  // byte tokens do not flush it: the reference puts it behind them
  const auto flush_unk = [&] {
    if (unk_pending) symbols.push_back(options_.unk_id);
    unk_pending = false;
  };
  std::string decorated;
  for (const char *p = word.data(), *end = p + word.size(); p != end;) {
    const char* const begin = p;
    p += char_length(*p);
    std::string_view c(begin, p - begin);
    const bool has_prefix = begin != word.data() && !options_.prefix.empty();
    const bool has_suffix = p == end && !options_.suffix.empty();
    int32_t id;
    if (has_prefix || has_suffix) {
      decorated = str(has_prefix ? options_.prefix : "", c, has_suffix ? options_.suffix : "");
      c = decorated;
      id = options_.vocab.find(c);
    } else {
      id = c.size() == 1 ? ascii_ids_[static_cast<uint8_t>(c[0])] : options_.vocab.find(c);
    }
    if (id >= 0) {
      flush_unk();
      symbols.push_back(id);
    } else if (options_.byte_fallback && append_byte_tokens(c, byte_ids_, symbols)) {
    } else if (options_.unk_id >= 0) {
      if (!options_.fuse_unk) flush_unk();
      unk_pending = true;
    }
  }
  flush_unk();
}

namespace {

// "left right" or ["left", "right"].
std::pair<std::string_view, std::string_view> merge_pair(simdjson::dom::element merge) {
  std::string_view text, left, right;
  if (merge.get(text) == simdjson::SUCCESS) {
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
    return {};
  }
  simdjson::dom::array pair;
  if (merge.get(pair) != simdjson::SUCCESS || pair.size() != 2) return {};
  if (pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) return {};
  return {left, right};
}

void read_merges(const JsonView& json, BpeOptions& options) {
  const simdjson::dom::array list = json.array();
  options.merges.reserve(std::max<size_t>(list.size(), 1));
  uint32_t rank = 0;
  std::string joined;
  for (simdjson::dom::element item : list) {
    const auto [left, right] = merge_pair(item);
    const auto fail = [&](const auto&... why) { throw Error(json.where(), "[", rank, "]: ", why...); };
    if (left.empty() || right.empty()) fail("expected two tokens, \"a b\" or [\"a\", \"b\"]");
    const int32_t left_id = options.vocab.find(left), right_id = options.vocab.find(right);
    if (left_id < 0) fail("\"", left, "\" is not in the vocabulary");
    if (right_id < 0) fail("\"", right, "\" is not in the vocabulary");
    if (right.size() < options.prefix.size()) fail("\"", right, "\" is shorter than the prefix");
    joined.assign(left).append(right.substr(options.prefix.size()));
    const int32_t id = options.vocab.find(joined);
    if (id < 0) fail("the result \"", joined, "\" is not in the vocabulary");
    options.merges.add(left_id, right_id, {rank++, id});
  }
}

}  // namespace

std::unique_ptr<Model> make_bpe(const JsonView& json, bool bytes) {
  BpeOptions options;
  options.vocab = read_vocab(json.at("vocab"));
  options.prefix = json.text_or("continuing_subword_prefix", "");
  options.suffix = json.text_or("end_of_word_suffix", "");
  options.fuse_unk = json.boolean_or("fuse_unk", false);
  options.byte_fallback = json.boolean_or("byte_fallback", false);
  options.ignore_merges = json.boolean_or("ignore_merges", false);
  options.bytes = bytes;
  if (const auto unk = json.find("unk_token")) options.unk_id = options.vocab.find(unk->text());
  read_merges(json.at("merges"), options);
  return std::make_unique<Bpe>(std::move(options));
}

}  // namespace octavo::tok
