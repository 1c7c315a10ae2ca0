// SentencePiece's compiled normalization rules, as published inside tokenizer.json. Layout of the blob:
//   u32 size of the trie in bytes, the trie (u32 units of a darts-clone double array), then the results:
//   strings that end with a zero byte. The trie maps a byte sequence to the offset of its result.
// A unit: bit 31 set = the unit is a value (bits 0-30). Else bits 0-7 + bit 31 = label, bit 8 = has a value
// child, offset to the children = bits 10-30, times 256 if bit 9 is set.
#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

class PrecompiledNormalizer : public Normalizer {
 public:
  PrecompiledNormalizer(std::string blob, const std::string& where) {
    uint32_t trie_bytes = 0;
    if (blob.size() >= 4) std::memcpy(&trie_bytes, blob.data(), 4);
    if (blob.size() < 4 || trie_bytes % 4 || trie_bytes < 4 || trie_bytes > blob.size() - 4) {
      throw Error(where, ": the size of the trie does not fit the ", blob.size(), " bytes of the map");
    }
    units_.resize(trie_bytes / 4);
    std::memcpy(units_.data(), blob.data() + 4, trie_bytes);
    results_ = blob.substr(4 + trie_bytes);
    UErrorCode status = U_ZERO_ERROR;
    graphemes_.reset(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
    if (U_FAILURE(status)) throw Error(where, ": ICU has no grapheme rules: ", u_errorName(status));
  }

  // A grapheme below 6 bytes is looked up whole, then character by character: that is what the reference
  // does, although SentencePiece itself takes the longest prefix.
  void apply(std::string& text) const override {
    std::string out;
    out.reserve(text.size());
    UErrorCode status = U_ZERO_ERROR;
    const std::unique_ptr<icu::BreakIterator> breaks(graphemes_->clone());
    UText* view = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
    breaks->setText(view, status);
    OCTAVO_CHECK(U_SUCCESS(status), "ICU break iterator: ", u_errorName(status));
    int32_t begin = breaks->first();
    for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next()) {
      append_grapheme(std::string_view(text).substr(begin, end - begin), out);
    }
    utext_close(view);
    text = std::move(out);
    if (is_valid_utf8(text)) return;
    // The results of a map may be any bytes, but what comes after a normalizer decodes without checks.
    out.clear();
    append_lossy(text, out);
    text = std::move(out);
  }

 private:
  void append_grapheme(std::string_view grapheme, std::string& out) const {
    if (grapheme.size() < 6) {
      if (const char* result = find(grapheme)) {
        out += result;
        return;
      }
    }
    for (size_t i = 0; i < grapheme.size();) {
      const std::string_view c = grapheme.substr(i, char_length(grapheme[i]));
      const char* result = find(c);
      result ? out += result : out += c;
      i += c.size();
    }
  }

  // The result of the shortest prefix of `key` that has one, or null: again what the reference does.
  const char* find(std::string_view key) const {
    size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<uint8_t>(c);
      if (byte == 0) return nullptr;
      node ^= byte;
      if (node >= units_.size()) return nullptr;
      const uint32_t unit = units_[node];
      if ((unit & (0x80000000u | 0xFF)) != byte) return nullptr;
      node ^= offset(unit);
      if (unit >> 8 & 1) {
        const uint32_t value = node < units_.size() ? units_[node] & 0x7FFFFFFFu : UINT32_MAX;
        return value < results_.size() ? results_.c_str() + value : nullptr;
      }
    }
    return nullptr;
  }
  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200) >> 6); }

  std::vector<uint32_t> units_;
  std::string results_;
  std::unique_ptr<icu::BreakIterator> graphemes_;  // cloned by each use: it holds a position
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled_normalizer(std::string charsmap, const std::string& where) {
  return std::make_unique<PrecompiledNormalizer>(std::move(charsmap), where);
}

}  // namespace octavo::tok
