#include "text/tokenizer/model.h"

#include <algorithm>
#include <iterator>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/json_view.h"

namespace octavo::tok {
namespace {

// Files older than the "type" member have to be recognised by what they contain.
std::string_view model_type(const JsonView& json) {
  if (const auto type = json.find("type")) return type->text();
  if (json.find("merges")) return "BPE";
  if (json.find("continuing_subword_prefix")) return "WordPiece";
  return json.find("unk_id") ? "Unigram" : "WordLevel";
}

}  // namespace

// With decorated characters the words have to be text.
bool model_knows_bytes(const JsonView& json) {
  return model_type(json) == "BPE" && json.text_or("continuing_subword_prefix", "").empty() &&
         json.text_or("end_of_word_suffix", "").empty() && !json.boolean_or("byte_fallback", false);
}

std::unique_ptr<Model> make_model(const JsonView& json, bool bytes) {
  const std::string_view type = model_type(json);
  OCTAVO_CHECK(!bytes || model_knows_bytes(json));
  if (type == "BPE") return make_bpe(json, bytes);
  if (type == "Unigram") return make_unigram(json);
  if (type == "WordPiece") return make_wordpiece(json);
  if (type == "WordLevel") return make_wordlevel(json);
  json.unknown("model", type, "BPE Unigram WordPiece WordLevel");
}

Vocab read_vocab(const JsonView& json) {
  const simdjson::dom::object object = json.object();
  size_t bytes = 0;
  for (const auto field : object) bytes += field.key.size();
  Vocab vocab;
  vocab.reserve(object.size(), bytes);
  for (const auto field : object) {
    int64_t id;
    if (field.value.get(id) != simdjson::SUCCESS || id < 0 || id >= Vocab::kMaxIds) {
      throw Error(json.where(), ": the id of \"", field.key, "\" is not an integer in 0..",
                  Vocab::kMaxIds - 1);
    }
    if (!vocab.add(field.key, static_cast<int32_t>(id))) {
      throw Error(json.where(), ": \"", field.key, "\" has the id ", id, " of another token");
    }
  }
  return vocab;
}

std::array<int32_t, 256> byte_token_ids(const Vocab& vocab) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::array<int32_t, 256> ids;
  for (int b = 0; b < 256; ++b) {
    const char token[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
    ids[b] = vocab.find(std::string_view(token, sizeof(token)));
  }
  return ids;
}

bool append_byte_tokens(std::string_view text, const std::array<int32_t, 256>& byte_ids,
                        std::vector<int32_t>& out) {
  const auto id_of = [&](char byte) { return byte_ids[static_cast<uint8_t>(byte)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char byte) { return id_of(byte) >= 0; })) return false;
  std::transform(text.begin(), text.end(), std::back_inserter(out), id_of);
  return true;
}

}  // namespace octavo::tok
