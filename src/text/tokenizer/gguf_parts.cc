#include "text/tokenizer/gguf_parts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/scanner.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;

// Mistral's newer models: GPT-4o's without contractions, single digits.
constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What a name in "tokenizer.ggml.pre" stands for.
struct GgufPre {
  std::string_view name;
  std::string_view pattern;
  bool split_digits = false;  // single digits first, then the pattern
  bool nfc = false;           // the Hugging Face tokenizer normalizes, GGUF does not say so
  bool ignore_merges = false;
  bool add_bos = false;  // if the file does not say
};

const std::vector<GgufPre>& gguf_pres() {
  static const std::vector<GgufPre> rows = {
      {.name = "default", .pattern = kGpt2Pattern},
      {.name = "gpt-2", .pattern = kGpt2Pattern},
      {.name = "phi-2", .pattern = kGpt2Pattern},
      {.name = "olmo", .pattern = kGpt2Pattern},
      {.name = "mpt", .pattern = kGpt2Pattern},
      {.name = "smollm", .pattern = kGpt2Pattern, .split_digits = true},
      {.name = "starcoder", .pattern = kGpt2Pattern, .split_digits = true},
      {.name = "refact", .pattern = kGpt2Pattern, .split_digits = true},
      {.name = "command-r", .pattern = kGpt2Pattern, .split_digits = true},
      {.name = "codeshell", .pattern = kGpt2Pattern, .split_digits = true},
      {.name = "llama-bpe", .pattern = kLlama3Pattern, .ignore_merges = true, .add_bos = true},
      {.name = "llama3", .pattern = kLlama3Pattern, .ignore_merges = true, .add_bos = true},
      {.name = "llama-v3", .pattern = kLlama3Pattern, .ignore_merges = true, .add_bos = true},
      {.name = "smaug-bpe", .pattern = kLlama3Pattern},
      {.name = "dbrx", .pattern = kLlama3Pattern},
      {.name = "qwen2", .pattern = kQwen2Pattern, .nfc = true},
      {.name = "deepseek-r1-qwen", .pattern = kQwen2Pattern, .nfc = true},
      {.name = "stablelm2", .pattern = kQwen2Pattern, .nfc = true},
      {.name = "qwen35", .pattern = kQwen35Pattern, .nfc = true},
      {.name = "gpt-4o", .pattern = kO200kPattern, .ignore_merges = true},
      {.name = "llama4", .pattern = kO200kPattern, .ignore_merges = true, .add_bos = true},
      {.name = "tekken", .pattern = kTekkenPattern, .ignore_merges = true, .add_bos = true},
  };
  return rows;
}

const GgufPre& find_pre(const GgufVocab& vocab) {
  const std::string_view name = vocab.pre.empty() ? "default" : std::string_view(vocab.pre);
  std::string known;
  for (const GgufPre& row : gguf_pres()) {
    if (row.name == name) return row;
    known += str(known.empty() ? "" : " ", row.name);
  }
  throw Error(vocab.origin, ": tokenizer.ggml.pre: unknown pre-tokenizer \"", name, "\"; known: ", known);
}

// The components are built by the readers of tokenizer.json, from small documents.
template <class Make>
auto from_document(const Json& document, const std::string& where, const Make& make) {
  simdjson::dom::parser parser;
  const std::string text = document.dump();
  return make(JsonView(parser.parse(text), where));
}

Vocab read_tokens(const GgufVocab& vocab) {
  if (vocab.tokens.empty()) throw Error(vocab.origin, ": tokenizer.ggml.tokens is missing or empty");
  if (vocab.tokens.size() > static_cast<size_t>(Vocab::kMaxIds)) {
    throw Error(vocab.origin, ": tokenizer.ggml.tokens: ", vocab.tokens.size(), " tokens are too many");
  }
  if (!vocab.token_types.empty() && vocab.token_types.size() != vocab.tokens.size()) {
    throw Error(vocab.origin, ": tokenizer.ggml.token_type has ", vocab.token_types.size(), " entries for ",
                vocab.tokens.size(), " tokens");
  }
  Vocab result;
  result.reserve(vocab.tokens.size(), vocab.tokens.size() * 8);
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string& token = vocab.tokens[id];
    if (!is_valid_utf8(token)) throw Error(vocab.origin, ": tokenizer.ggml.tokens[", id, "] is not UTF-8");
    OCTAVO_CHECK(result.add(token, static_cast<int32_t>(id)), "ids rise");
  }
  return result;
}

std::vector<AddedToken> read_added(const GgufVocab& vocab) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocab.token_types.size(); ++id) {
    const int32_t type = vocab.token_types[id];
    const bool special = type == GgufVocab::kControl || type == GgufVocab::kUnknown;
    if (!special && type != GgufVocab::kUserDefined) continue;
    if (vocab.tokens[id].empty()) continue;
    added.push_back({.id = static_cast<int32_t>(id), .content = vocab.tokens[id], .special = special});
  }
  return added;
}

// The optional id, checked.
std::optional<int32_t> checked(const GgufVocab& vocab, std::optional<int32_t> id, const char* name) {
  if (id && (*id < 0 || static_cast<size_t>(*id) >= vocab.tokens.size())) {
    throw Error(vocab.origin, ": tokenizer.ggml.", name, "_token_id: ", *id, " is no token");
  }
  return id;
}

void set_special_ids(const GgufVocab& vocab, bool add_bos, Parts& parts) {
  parts.bos_id = checked(vocab, vocab.bos_id, "bos");
  parts.eos_id = checked(vocab, vocab.eos_id, "eos");
  std::vector<int32_t> single, pair;
  for (const int32_t sequence : {PostProcessor::kFirst, PostProcessor::kSecond}) {
    if (add_bos && parts.bos_id) pair.push_back(*parts.bos_id);
    pair.push_back(sequence);
    if (vocab.add_eos.value_or(false) && parts.eos_id) pair.push_back(*parts.eos_id);
    if (sequence == PostProcessor::kFirst) single = pair;
  }
  parts.post_processor = PostProcessor(single, pair);
}

void read_merges(const GgufVocab& vocab, BpeOptions& options) {
  options.merges.reserve(std::max<size_t>(vocab.merges.size(), 1));
  for (size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const std::string_view merge = vocab.merges[rank];
    const size_t space = merge.find(' ', 1);
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = space == merge.npos ? std::string_view() : merge.substr(space + 1);
    const int32_t left_id = options.vocab.find(left), right_id = options.vocab.find(right);
    const int32_t id = options.vocab.find(str(left, right));
    if (left_id < 0 || right_id < 0 || id < 0) {
      throw Error(vocab.origin, ": tokenizer.ggml.merges[", rank, "]: \"", merge,
                  "\" is not a pair of tokens");
    }
    options.merges.add(left_id, right_id, {static_cast<uint32_t>(rank), id});
  }
}

Parts parts_from_gpt2(const GgufVocab& vocab) {
  const GgufPre& pre = find_pre(vocab);
  BpeOptions options;
  options.vocab = read_tokens(vocab);
  options.bytes = true;
  options.ignore_merges = pre.ignore_merges;
  read_merges(vocab, options);

  Parts parts;
  parts.added = read_added(vocab);
  parts.model = std::make_unique<Bpe>(std::move(options));
  if (pre.nfc) parts.normalizer = from_document({{"type", "NFC"}}, vocab.origin, make_normalizer);
  Json steps = Json::array();
  if (pre.split_digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  steps.push_back({{"type", "Split"}, {"pattern", {{"Regex", pre.pattern}}}, {"behavior", "Isolated"}});
  const Json chain = {{"type", "Sequence"}, {"pretokenizers", steps}};
  parts.pre_tokenizer = from_document(chain, vocab.origin, make_pre_tokenizer).steps;
  parts.decoder = from_document({{"type", "ByteLevel"}}, vocab.origin, Decoder::from_json);
  set_special_ids(vocab, vocab.add_bos.value_or(pre.add_bos), parts);
  return parts;
}

// SentencePiece joins the pair whose result has the best score. As merges: each way to spell a token by two
// others, by falling score; those of one token by the ids of the two. This is how the Hugging Face converter
// does it, and unlike scores alone it also decides ties as the converted tokenizer.json does.
void merges_from_scores(const GgufVocab& vocab, BpeOptions& options) {
  struct Candidate {
    float score;
    int32_t left, right, id;
  };
  std::vector<Candidate> candidates;
  for (int32_t id = 0; id < options.vocab.id_bound(); ++id) {
    const std::string_view token = options.vocab.at(id);
    if (options.vocab.find(token) != id) continue;
    const size_t first = candidates.size();
    for (size_t at = token.empty() ? 0 : char_length(token[0]); at < token.size();
         at += char_length(token[at])) {
      const int32_t left = options.vocab.find(token.substr(0, at));
      const int32_t right = left < 0 ? -1 : options.vocab.find(token.substr(at));
      if (right >= 0) candidates.push_back({vocab.scores[id], left, right, id});
    }
    std::sort(candidates.begin() + static_cast<ptrdiff_t>(first), candidates.end(),
              [](const Candidate& a, const Candidate& b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  options.merges.reserve(std::max<size_t>(candidates.size(), 1));
  uint32_t rank = 0;
  for (const Candidate& c : candidates) options.merges.add(c.left, c.right, {rank++, c.id});
}

// A special token may be as long as a hostile file likes; its spellings would be quadratic in that.
constexpr size_t kMaxTokenBytes = 4096;

Parts parts_from_llama(const GgufVocab& vocab) {
  if (vocab.scores.size() != vocab.tokens.size()) {
    throw Error(vocab.origin, ": tokenizer.ggml.scores has ", vocab.scores.size(), " entries for ",
                vocab.tokens.size(), " tokens");
  }
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.tokens[id].size() > kMaxTokenBytes || vocab.scores[id] != vocab.scores[id]) {
      throw Error(vocab.origin, ": tokenizer.ggml: token ", id, " is too long or its score is no number");
    }
  }
  BpeOptions options;
  options.vocab = read_tokens(vocab);
  options.unk_id = checked(vocab, vocab.unk_id, "unknown").value_or(options.vocab.find("<unk>"));
  options.fuse_unk = true;
  options.byte_fallback = true;
  merges_from_scores(vocab, options);

  Parts parts;
  parts.added = read_added(vocab);
  parts.model = std::make_unique<Bpe>(std::move(options));
  const bool prefix = vocab.add_space_prefix.value_or(true);
  Json normalizers = Json::array(), decoders = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "\u2581"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}});
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const Json normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}};
  const Json decoder = {{"type", "Sequence"}, {"decoders", decoders}};
  parts.normalizer = from_document(normalizer, vocab.origin, make_normalizer);
  parts.decoder = from_document(decoder, vocab.origin, Decoder::from_json);
  set_special_ids(vocab, vocab.add_bos.value_or(true), parts);
  return parts;
}

}  // namespace

Parts parts_from_gguf(const GgufVocab& vocab) {
  if (vocab.model == "gpt2") return parts_from_gpt2(vocab);
  if (vocab.model == "llama") return parts_from_llama(vocab);
  throw Error(vocab.origin, ": tokenizer.ggml.model: unknown model \"", vocab.model, "\"; known: gpt2 llama");
}

}  // namespace octavo::tok
