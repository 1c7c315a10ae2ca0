#include "text/tokenizer/decoder.h"

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Without a decoder: tokens with spaces between them.
class SpaceStep : public DecoderStep {
  void apply(std::string& token, bool is_first, bool) const override {
    if (!is_first) token.insert(0, 1, ' ');
  }
};

class ReplaceStep : public DecoderStep {
 public:
  explicit ReplaceStep(const JsonView& json)
      : pattern_(Pattern::from_json(json.at("pattern"))), content_(json.text("content")) {}
  void apply(std::string& token, bool, bool) const override {
    Spans matches;
    pattern_.find_all(token, matches);
    for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
      token.replace(match->begin, match->end - match->begin, content_);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripStep : public DecoderStep {
 public:
  StripStep(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::string& token, bool, bool) const override {
    std::string_view rest = token;
    for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
    for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
    token = std::string(rest);
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class MetaspaceStep : public DecoderStep {
 public:
  explicit MetaspaceStep(const JsonView& json)
      : replacement_(json.text_or("replacement", "\xE2\x96\x81")),
        drops_first_(
            json.text_or("prepend_scheme", json.boolean_or("add_prefix_space", true) ? "always" : "never") !=
            "never") {}
  void apply(std::string& token, bool is_first, bool) const override {
    replace_all(token, replacement_, is_first && drops_first_ ? "" : " ");
  }

 private:
  std::string replacement_;
  bool drops_first_;
};

class WordPieceStep : public DecoderStep {
 public:
  explicit WordPieceStep(const JsonView& json)
      : prefix_(json.text_or("prefix", "##")), cleanup_(json.boolean_or("cleanup", true)) {}
  void apply(std::string& token, bool is_first, bool) const override {
    if (!is_first) {
      token.starts_with(prefix_) ? token.erase(0, prefix_.size()) : token.insert(0, 1, ' ');
    }
    if (!cleanup_) return;
    static constexpr std::string_view kRules[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) replace_all(token, from, to);
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class BpeStep : public DecoderStep {
 public:
  explicit BpeStep(const JsonView& json) : suffix_(json.text_or("suffix", "</w>")) {}
  void apply(std::string& token, bool, bool is_last) const override {
    replace_all(token, suffix_, is_last ? "" : " ");
  }

 private:
  std::string suffix_;
};

int hex_value(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

template <class Step>
std::shared_ptr<const DecoderStep> make_step(const JsonView& json) {
  return std::make_shared<Step>(json);
}

constexpr struct {
  std::string_view type;
  std::shared_ptr<const DecoderStep> (*make)(const JsonView&);
} kSteps[] = {
    {"Replace", make_step<ReplaceStep>},
    {"Metaspace", make_step<MetaspaceStep>},
    {"WordPiece", make_step<WordPieceStep>},
    {"BPEDecoder", make_step<BpeStep>},
};

// The reference's nested Sequences as one list.
void flatten(const JsonView& json, std::vector<JsonView>& out) {
  if (json.text("type") != "Sequence") {
    out.push_back(json);
    return;
  }
  for (const JsonView& part : json.at("decoders").items()) flatten(part, out);
}

}  // namespace

int byte_token_value(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_value(token[3]), low = hex_value(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

Decoder::Decoder() : token_steps_{std::make_shared<SpaceStep>()} {}

Decoder Decoder::from_json(const JsonView& json) {
  Decoder decoder;
  decoder.token_steps_.clear();
  std::vector<JsonView> parts;
  flatten(json, parts);
  for (const JsonView& part : parts) {
    const std::string_view type = part.text("type");
    Steps& steps = decoder.joined_ ? decoder.text_steps_ : decoder.token_steps_;
    if (type == "Fuse") {
      decoder.joined_ = true;
    } else if (type == "ByteLevel" || type == "ByteFallback") {
      if (decoder.joined_ || decoder.bytes_ != Bytes::kNone)
        throw Error(part.where(), ": ", type, " comes too late");
      decoder.bytes_ = type == "ByteLevel" ? Bytes::kByteLevel : Bytes::kByteFallback;
      decoder.joined_ = decoder.bytes_ == Bytes::kByteLevel;
    } else if (type == "Strip") {
      const std::string content(part.text("content"));
      const int64_t start = part.integer_or("start", 0), stop = part.integer_or("stop", 0);
      if (decoder.joined_ && !content.empty() && start > 0 && start < INT32_MAX) {
        decoder.stripped_at_start_ = static_cast<int>(start);
        decoder.stripped_char_ = content;
      }
      if (content.empty()) throw Error(part.where(), ".content: expected a character");
      steps.push_back(std::make_shared<StripStep>(content, start, stop));
    } else {
      std::string known = "Sequence Fuse ByteLevel ByteFallback Strip";
      std::shared_ptr<const DecoderStep> step;
      for (const auto& row : kSteps) {
        if (row.type == type) step = row.make(part);
        known += str(" ", row.type);
      }
      if (!step) part.unknown("decoder", type, known);
      steps.push_back(std::move(step));
    }
  }
  return decoder;
}

std::string Decoder::decode(const std::vector<std::string_view>& tokens) const {
  std::string text;
  std::vector<std::string> strings;  // ByteFallback looks at runs of tokens
  std::string token;
  for (size_t i = 0; i < tokens.size(); ++i) {
    token.assign(tokens[i]);
    for (const auto& step : token_steps_) step->apply(token, i == 0, i + 1 == tokens.size());
    switch (bytes_) {
      case Bytes::kNone:
        text += token;
        break;
      case Bytes::kByteLevel:
        if (!append_byte_level_decoded(token, text)) text += token;
        break;
      case Bytes::kByteFallback:
        strings.push_back(token);
        break;
    }
  }
  if (bytes_ == Bytes::kByteFallback) text = join_fallback(strings);
  if (!is_valid_utf8(text)) {
    std::string repaired;
    append_lossy(text, repaired);
    text = std::move(repaired);
  }
  for (const auto& step : text_steps_) step->apply(text, true, true);
  return text;
}

// A run of byte tokens is text if all of it is valid, else one U+FFFD for each byte.
std::string Decoder::join_fallback(const std::vector<std::string>& tokens) const {
  std::string text, run;
  const auto flush = [&] {
    if (is_valid_utf8(run)) {
      text += run;
    } else {
      for (size_t i = 0; i < run.size(); ++i) text += kReplacementChar;
    }
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const int byte = byte_token_value(token); byte >= 0) {
      run += static_cast<char>(byte);
    } else {
      flush();
      text += token;
    }
  }
  flush();
  return text;
}

void Decoder::append_piece(std::string_view token, bool is_first, std::string& out, bool& is_byte) const {
  std::string piece(token);
  for (const auto& step : token_steps_) step->apply(piece, is_first, false);
  const int byte = bytes_ == Bytes::kByteFallback ? byte_token_value(piece) : -1;
  is_byte = byte >= 0;
  if (is_byte) {
    out += static_cast<char>(byte);
  } else if (bytes_ != Bytes::kByteLevel || !append_byte_level_decoded(piece, out)) {
    out += piece;
  }
}

}  // namespace octavo::tok
