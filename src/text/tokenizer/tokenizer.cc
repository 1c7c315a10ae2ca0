#include "text/tokenizer/tokenizer.h"

#include <mutex>

#include "base/error.h"
#include "text/tokenizer/gguf_parts.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/utf8.h"

namespace octavo {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // spans and ICU count in 32 bits

}  // namespace

struct Tokenizer::Impl {
  Impl(tok::Parts p, const std::string& origin);

  void encode_into(std::string_view text, std::vector<int32_t>& out) const;
  void encode_raw_gap(std::string_view text, bool starts_input, tok::WordCache& cache,
                      std::vector<int32_t>& out) const;
  void encode_gap(std::string_view text, bool starts_input, tok::WordCache& cache,
                  std::vector<int32_t>& out) const;
  std::string_view token(int32_t id) const;

  std::unique_ptr<tok::WordCache> take_cache() const;
  void give_cache(std::unique_ptr<tok::WordCache> cache) const;

  tok::Parts parts;
  tok::AddedTokens added;
  tok::Vocab added_vocab;  // tokens that the model does not have
  int32_t bound;           // all ids are below
  std::optional<int32_t> bos, eos;

  // Each id's share of a running text: pieces[offsets[id], offsets[id + 1]).
  std::string pieces;
  std::vector<uint32_t> offsets;
  std::vector<bool> byte_pieces;

  // Word caches that no thread is using: as many as there ever were concurrent calls.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<tok::WordCache>> caches;
};

Tokenizer::Impl::Impl(tok::Parts p, const std::string& origin)
    : parts(std::move(p)),
      added(std::move(parts.added), parts.normalizer.get()),
      bound(parts.model->vocab().id_bound()) {
  for (const tok::AddedToken& token : added.tokens()) {
    if (parts.model->vocab().at(token.id) != token.content && !added_vocab.add(token.content, token.id)) {
      throw Error(origin, ": added token \"", token.content, "\" has the id ", token.id,
                  " of another added token");
    }
  }
  bound = std::max(bound, added_vocab.id_bound());
  const std::vector<int32_t> before = parts.post_processor.before(), after = parts.post_processor.after();
  bos = parts.bos_id ? parts.bos_id : before.empty() ? std::nullopt : std::optional(before.front());
  eos = parts.eos_id ? parts.eos_id : after.empty() ? std::nullopt : std::optional(after.back());
  offsets.reserve(bound + 1);
  byte_pieces.resize(bound);
  for (int32_t id = 0; id < bound; ++id) {
    offsets.push_back(static_cast<uint32_t>(pieces.size()));
    bool is_byte = false;
    if (!token(id).empty()) parts.decoder.append_piece(token(id), false, pieces, is_byte);
    byte_pieces[id] = is_byte;
  }
  offsets.push_back(static_cast<uint32_t>(pieces.size()));
}

std::string_view Tokenizer::Impl::token(int32_t id) const {
  if (const std::string_view spelling = added.spelling(id); !spelling.empty()) return spelling;
  const std::string_view own = added_vocab.at(id);
  return own.empty() ? parts.model->vocab().at(id) : own;
}

std::unique_ptr<tok::WordCache> Tokenizer::Impl::take_cache() const {
  const std::lock_guard lock(mutex);
  if (caches.empty()) return std::make_unique<tok::WordCache>();
  std::unique_ptr<tok::WordCache> cache = std::move(caches.back());
  caches.pop_back();
  return cache;
}

void Tokenizer::Impl::give_cache(std::unique_ptr<tok::WordCache> cache) const {
  const std::lock_guard lock(mutex);
  caches.push_back(std::move(cache));
}

void Tokenizer::Impl::encode_into(std::string_view text, std::vector<int32_t>& out) const {
  if (text.size() > kMaxTextBytes)
    throw Error("text of ", text.size(), " bytes is longer than ", kMaxTextBytes);
  std::string repaired;
  if (!tok::is_valid_utf8(text)) {
    tok::append_lossy(text, repaired);
    text = repaired;
  }
  std::unique_ptr<tok::WordCache> cache = take_cache();
  out.reserve(out.size() + text.size() / 3);
  std::vector<tok::AddedTokenFinder::Piece> split;
  added.raw().split(text, split);
  for (const auto& [span, id] : split) {
    if (id >= 0) {
      out.push_back(id);
    } else {
      encode_raw_gap(tok::slice(text, span), span.begin == 0, *cache, out);
    }
  }
  give_cache(std::move(cache));
}

// Text between the added tokens that match raw text.
void Tokenizer::Impl::encode_raw_gap(std::string_view text, bool starts_input, tok::WordCache& cache,
                                     std::vector<int32_t>& out) const {
  std::string normalized;
  if (parts.normalizer) {
    normalized = text;
    parts.normalizer->apply(normalized);
    text = normalized;
  }
  if (added.normalized().empty()) return encode_gap(text, starts_input, cache, out);
  std::vector<tok::AddedTokenFinder::Piece> split;
  added.normalized().split(text, split);
  for (const auto& [span, id] : split) {
    if (id >= 0) {
      out.push_back(id);
    } else {
      encode_gap(tok::slice(text, span), starts_input && span.begin == 0, cache, out);
    }
  }
}

void Tokenizer::Impl::encode_gap(std::string_view text, bool starts_input, tok::WordCache& cache,
                                 std::vector<int32_t>& out) const {
  if (text.empty()) return;
  tok::Pieces words;
  words.text = text;
  words.spans.push_back({0, static_cast<uint32_t>(text.size())});
  words.starts_input = starts_input;
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(words);
  parts.model->encode(words.text, words.spans, cache, out);
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::unique_ptr<Tokenizer> Tokenizer::from_json(std::string_view json, const std::string& origin) {
  return std::unique_ptr<Tokenizer>(
      new Tokenizer(std::make_unique<Impl>(tok::parse_parts(json, origin), origin)));
}

std::unique_ptr<Tokenizer> Tokenizer::from_vocab(const GgufVocab& vocab) {
  return std::unique_ptr<Tokenizer>(
      new Tokenizer(std::make_unique<Impl>(tok::parts_from_gguf(vocab), vocab.origin)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  impl_->encode_into(text, ids);
  return add_special_tokens ? impl_->parts.post_processor.apply(ids) : ids;
}

std::vector<int32_t> Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                            bool add_special_tokens) const {
  std::vector<int32_t> first_ids = encode(first, false);
  const std::vector<int32_t> second_ids = encode(second, false);
  if (add_special_tokens) return impl_->parts.post_processor.apply(first_ids, second_ids);
  first_ids.insert(first_ids.end(), second_ids.begin(), second_ids.end());
  return first_ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string_view> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    const std::string_view token = impl_->token(id);
    if (!token.empty() && !(skip_special_tokens && is_special(id))) tokens.push_back(token);
  }
  return impl_->parts.decoder.decode(tokens);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  int32_t id = impl_->added_vocab.find(token);
  if (id < 0) id = impl_->parts.model->vocab().find(token);
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string_view Tokenizer::token_of(int32_t id) const { return impl_->token(id); }
int32_t Tokenizer::vocab_size() const { return impl_->bound; }
bool Tokenizer::is_special(int32_t id) const { return impl_->added.is_special(id); }
std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos; }
std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos; }

bool Tokenizer::adds_bos() const {
  const std::vector<int32_t> before = impl_->parts.post_processor.before();
  return !before.empty() && impl_->bos == before.front();
}

std::string_view Tokenizer::piece(int32_t id, bool& is_byte) const {
  is_byte = false;
  if (id < 0 || id >= impl_->bound) return {};
  is_byte = impl_->byte_pieces[id];
  const uint32_t begin = impl_->offsets[id];
  return std::string_view(impl_->pieces).substr(begin, impl_->offsets[id + 1] - begin);
}

std::string Tokenizer::first_piece(int32_t id, bool& is_byte) const {
  std::string piece;
  is_byte = false;
  const std::string_view token = impl_->token(id);
  if (!token.empty()) impl_->parts.decoder.append_piece(token, true, piece, is_byte);
  return piece;
}

int Tokenizer::stripped_at_start(std::string_view& character) const {
  character = impl_->parts.decoder.stripped_char();
  return impl_->parts.decoder.stripped_at_start();
}

}  // namespace octavo
