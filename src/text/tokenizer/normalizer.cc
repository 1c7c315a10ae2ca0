#include "text/tokenizer/normalizer.h"

#include <functional>
#include <vector>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/char_class.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode_forms.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

// Most normalizers are one function on the text.
class FunctionNormalizer : public Normalizer {
 public:
  explicit FunctionNormalizer(std::function<void(std::string&)> function) : function_(std::move(function)) {}
  void apply(std::string& text) const override { function_(text); }

 private:
  std::function<void(std::string&)> function_;
};

// Rebuilds the text from what `map(c, out)` appends for each character.
template <class Map>
void map_chars(std::string& text, const Map& map) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (const char *p = text.data(), *end = p + text.size(); p != end;) map(next_char(p), out);
  text = std::move(out);
}

void lowercase(std::string& text) { map_chars(text, append_lower); }

void strip_accents(std::string& text) {
  map_chars(text, [](char32_t c, std::string& out) {
    if (!is_combining_mark(c)) append_char(c, out);
  });
}

void strip(std::string& text, bool left, bool right) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  for (const char* p = begin; left && p != end && is_space(next_char(p));) begin = p;
  for (const char* p = end; right && p != begin && is_space(previous_char(p));) end = p;
  text = std::string(begin, end);
}

void replace(std::string& text, const Pattern& pattern, const std::string& content) {
  Spans matches;
  pattern.find_all(text, matches);
  if (matches.empty()) return;
  std::string out;
  out.reserve(text.size() + matches.size() * content.size());
  size_t at = 0;
  for (const Span match : matches) {
    out.append(text, at, match.begin - at);
    out += content;
    at = match.end;
  }
  out.append(text, at);
  text = std::move(out);
}

bool is_cjk(char32_t c) {
  static constexpr struct {
    char32_t first, last;
  } kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
                 {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& range : kRanges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

struct BertOptions {
  bool clean_text, split_cjk, strip_accents, lowercase;
};

void bert(std::string& text, const BertOptions& options) {
  map_chars(text, [&](char32_t c, std::string& out) {
    if (options.clean_text) {
      const bool white = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (!white && is_other(c))) return;
      if (white || is_space(c)) c = ' ';
    }
    const bool apart = options.split_cjk && is_cjk(c);
    if (apart) out += ' ';
    append_char(c, out);
    if (apart) out += ' ';
  });
  if (options.strip_accents) {
    to_unicode_form(UnicodeForm::kNfd, text);
    map_chars(text, [](char32_t c, std::string& out) {
      if (!is_nonspacing_mark(c)) append_char(c, out);
    });
  }
  if (options.lowercase) lowercase(text);
}

// SentencePiece's nmt_nfkc without the nfkc: drops controls, turns odd spaces into spaces.
void nmt(std::string& text) {
  map_chars(text, [](char32_t c, std::string& out) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      return;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    append_char(space ? U' ' : c, out);
  });
}

std::string decode_base64(std::string_view text, const std::string& where) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (c == '=') break;
    if (value < 0) throw Error(where, ": not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    if ((count += 6) >= 8) out += static_cast<char>(bits >> (count -= 8));
  }
  return out;
}

using Function = std::function<void(std::string&)>;
using Maker = Function (*)(const JsonView&);

Function make_sequence(const JsonView& json) {
  std::vector<std::shared_ptr<const Normalizer>> parts;
  for (const JsonView& part : json.at("normalizers").items()) parts.push_back(make_normalizer(part));
  return [parts](std::string& text) {
    for (const auto& part : parts) part->apply(text);
  };
}

Function make_bert(const JsonView& json) {
  const bool lower = json.boolean_or("lowercase", true);
  const BertOptions options{json.boolean_or("clean_text", true),
                            json.boolean_or("handle_chinese_chars", true),
                            json.boolean_or("strip_accents", lower), lower};
  return [options](std::string& text) { bert(text, options); };
}

Function make_prepend(const JsonView& json) {
  return [prefix = std::string(json.text("prepend"))](std::string& text) {
    if (!text.empty()) text.insert(0, prefix);
  };
}

Function make_replace(const JsonView& json) {
  return [pattern = Pattern::from_json(json.at("pattern")), content = std::string(json.text("content"))](
             std::string& text) { replace(text, pattern, content); };
}

Function make_strip(const JsonView& json) {
  const bool left = json.boolean_or("strip_left", true), right = json.boolean_or("strip_right", true);
  return [left, right](std::string& text) { strip(text, left, right); };
}

Function make_precompiled(const JsonView& json) {
  const JsonView blob = json.at("precompiled_charsmap");
  const std::shared_ptr<const Normalizer> map =
      make_precompiled_normalizer(decode_base64(blob.text(), blob.where()), blob.where());
  return [map](std::string& text) { map->apply(text); };
}

template <UnicodeForm kForm>
Function make_form(const JsonView&) {
  return [](std::string& text) { to_unicode_form(kForm, text); };
}

void byte_level(std::string& text) {
  std::string out;
  append_byte_level_encoded(text, out);
  text = std::move(out);
}

constexpr struct {
  std::string_view type;
  Maker make;
} kNormalizers[] = {
    {"Sequence", make_sequence},
    {"NFC", make_form<UnicodeForm::kNfc>},
    {"NFD", make_form<UnicodeForm::kNfd>},
    {"NFKC", make_form<UnicodeForm::kNfkc>},
    {"NFKD", make_form<UnicodeForm::kNfkd>},
    {"Replace", make_replace},
    {"Prepend", make_prepend},
    {"Strip", make_strip},
    {"Lowercase", [](const JsonView&) -> Function { return lowercase; }},
    {"StripAccents", [](const JsonView&) -> Function { return strip_accents; }},
    {"BertNormalizer", make_bert},
    {"Nmt", [](const JsonView&) -> Function { return nmt; }},
    {"ByteLevel", [](const JsonView&) -> Function { return byte_level; }},
    {"Precompiled", make_precompiled},
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonView& json) {
  const std::string_view type = json.text("type");
  std::string known;
  for (const auto& row : kNormalizers) {
    if (row.type == type) return std::make_unique<FunctionNormalizer>(row.make(json));
    known += str(known.empty() ? "" : " ", row.type);
  }
  json.unknown("normalizer", type, known);
}

}  // namespace octavo::tok
