// Arbitrary bytes through small tokenizers of each kind of model. Ids are in range, decoded text is valid
// UTF-8, and what is valid UTF-8 comes back unchanged from the byte-level one, also through the detokenizer
// and from any prompt.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace {

using octavo::Detokenizer;
using octavo::GgufVocab;
using octavo::Tokenizer;

std::unique_ptr<Tokenizer> byte_level(const char* pre) {
  GgufVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = pre;
  for (int b = 0; b < 256; ++b) {
    vocab.tokens.emplace_back();
    octavo::tok::append_char(octavo::tok::byte_level_char(static_cast<uint8_t>(b)), vocab.tokens.back());
  }
  for (const char* merge :
       {"a a", "aa aa", "t h", "th e", "\u0120 the", "\u0120 \u0120", "1 2", "\u00c3 \u00a9"}) {
    vocab.merges.emplace_back(merge);
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    vocab.tokens.push_back(joined);
  }
  vocab.token_types.assign(vocab.tokens.size(), GgufVocab::kNormal);
  vocab.tokens.emplace_back("<|x|>");
  vocab.token_types.push_back(GgufVocab::kControl);
  return Tokenizer::from_vocab(vocab);
}

std::unique_ptr<Tokenizer> sentence_piece() {
  GgufVocab vocab;
  vocab.model = "llama";
  for (int b = 0; b < 256; ++b) {
    char token[7];
    std::snprintf(token, sizeof(token), "<0x%02X>", b);
    vocab.tokens.emplace_back(token);
  }
  for (const char* token : {"<unk>", "\u2581", "a", "aa", "aaaa", "\u2581a", "t", "h", "e", "he", "the",
                            "\u2581the", "\u00e9", "e\u2581"}) {
    vocab.tokens.emplace_back(token);
  }
  for (size_t id = 0; id < vocab.tokens.size(); ++id) vocab.scores.push_back(-static_cast<float>(id));
  return Tokenizer::from_vocab(vocab);
}

std::unique_ptr<Tokenizer> from_json(const char* json) { return Tokenizer::from_json(json, "fuzz"); }

void check(bool condition) {
  if (!condition) std::abort();
}

void run(const Tokenizer& tokenizer, std::string_view text, bool is_lossless) {
  const std::vector<int32_t> ids = tokenizer.encode(text, false);
  for (const int32_t id : ids) check(id >= 0 && id < tokenizer.vocab_size());
  const std::string decoded = tokenizer.decode(ids, false);
  check(octavo::tok::is_valid_utf8(decoded));
  if (is_lossless && octavo::tok::is_valid_utf8(text)) check(decoded == text);
  const size_t cut = ids.empty() ? 0 : text.size() % (ids.size() + 1);
  for (const size_t prompt : {size_t{0}, cut}) {
    Detokenizer detokenizer(tokenizer, std::span(ids).first(prompt), false);
    std::string streamed;
    for (size_t i = prompt; i < ids.size(); ++i) {
      streamed += detokenizer.push(ids[i]);
      check(octavo::tok::is_valid_utf8(streamed));
    }
    streamed += detokenizer.finish();
    if (is_lossless) check(prompt == 0 ? streamed == decoded : decoded.ends_with(streamed));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::unique_ptr<Tokenizer>> lossless = [] {
    std::vector<std::unique_ptr<Tokenizer>> list;
    for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "gpt-4o", "tekken"})
      list.push_back(byte_level(pre));
    return list;
  }();
  static const std::vector<std::unique_ptr<Tokenizer>> others = [] {
    std::vector<std::unique_ptr<Tokenizer>> list;
    list.push_back(byte_level("qwen35"));
    list.push_back(sentence_piece());
    list.push_back(
        from_json(R"({"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
      "decoder": {"type": "WordPiece"}, "model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##a": 2, ".": 3}}})"));
    list.push_back(from_json(
        R"({"normalizer": {"type": "NFKD"}, "pre_tokenizer": {"type": "Metaspace"}, "decoder": {"type": "Metaspace"},
      "added_tokens": [{"id": 0, "content": "<unk>", "special": true, "lstrip": true, "rstrip": true}],
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["aa", -1.5], ["\u2581", -2]]}})"));
    return list;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& tokenizer : lossless) run(*tokenizer, text, true);
  for (const auto& tokenizer : others) run(*tokenizer, text, false);
  return 0;
}
