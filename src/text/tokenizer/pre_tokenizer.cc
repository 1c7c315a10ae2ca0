#include "text/tokenizer/pre_tokenizer.h"

#include <functional>
#include <vector>

#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/char_class.h"
#include "text/tokenizer/json_view.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

constexpr std::string_view kWordOrSigns =
    "[\\w\\p{Join_Control}]+|[^\\w\\p{Join_Control}\\s]+";  // Rust's \w+|[^\w\s]+

// What becomes of the matches of a split and of what lies between them.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior parse_behavior(const JsonView& json) {
  const std::string_view name = json.text();
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  json.unknown("behavior", name, "Removed Isolated MergedWithPrevious MergedWithNext Contiguous");
}

struct Part {
  Span span;
  bool is_match;
};

// One piece, cut into matches and the rest, all of it.
void append_parts(Span piece, const Spans& matches, bool invert, std::vector<Part>& out) {
  uint32_t at = piece.begin;
  for (const Span match : matches) {
    const Span moved{piece.begin + match.begin, piece.begin + match.end};
    if (at != moved.begin) out.push_back({{at, moved.begin}, invert});
    out.push_back({moved, !invert});
    at = moved.end;
  }
  if (at != piece.end) out.push_back({{at, piece.end}, invert});
}

void append_merged(const std::vector<Part>& parts, Behavior behavior, Spans& out) {
  const size_t first = out.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    const bool previous_is_match = i > 0 && parts[i - 1].is_match;
    bool merge = false;
    switch (behavior) {
      case Behavior::kRemoved:
        if (part.is_match) continue;
        break;
      case Behavior::kIsolated:
        break;
      // A match joins what is before it unless that is a match as well.
      case Behavior::kMergedWithPrevious:
        merge = part.is_match && !previous_is_match;
        break;
      // The same from the other side: a match followed by a match stays alone.
      case Behavior::kMergedWithNext:
        merge = previous_is_match && !part.is_match;
        break;
      case Behavior::kContiguous:
        merge = part.is_match == previous_is_match;
        break;
    }
    if (merge && i > 0 && out.size() > first) {
      out.back().end = part.span.end;
    } else if (part.span.begin != part.span.end) {
      out.push_back(part.span);
    }
  }
}

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces) const override {
    Spans out, matches;
    out.reserve(pieces.spans.size() + pieces.text.size() / 4);
    std::vector<Part> parts;
    for (const Span piece : pieces.spans) {
      matches.clear();
      parts.clear();
      pattern_.find_all(slice(pieces.text, piece), matches);
      append_parts(piece, matches, invert_, parts);
      append_merged(parts, behavior_, out);
    }
    update(pieces, std::move(out));
  }

  static void update(Pieces& pieces, Spans out) {
    pieces.starts_input =
        pieces.starts_input && !out.empty() && out.front().begin == pieces.spans.front().begin;
    pieces.spans = std::move(out);
  }

 private:
  Pattern pattern_;
  Behavior behavior_;
  bool invert_;
};

// Cuts with a scanner whose matches cover the text: nothing to merge.
class Scan : public PreTokenizer {
 public:
  explicit Scan(Scanner scanner) : scanner_(scanner) {}
  void apply(Pieces& pieces) const override {
    Spans out;
    out.reserve(pieces.text.size() / 4 + 8);
    for (const Span piece : pieces.spans) {
      const size_t first = out.size();
      scanner_(slice(pieces.text, piece), out);
      for (size_t i = first; piece.begin != 0 && i < out.size(); ++i) {
        out[i].begin += piece.begin;
        out[i].end += piece.begin;
      }
    }
    pieces.spans = std::move(out);
  }

 private:
  Scanner scanner_;
};

// Splits at the characters that a predicate names.
class SplitChars : public PreTokenizer {
 public:
  SplitChars(std::function<bool(char32_t)> predicate, Behavior behavior)
      : predicate_(std::move(predicate)), behavior_(behavior) {}

  void apply(Pieces& pieces) const override {
    Spans out, matches;
    std::vector<Part> parts;
    for (const Span piece : pieces.spans) {
      const std::string_view text = slice(pieces.text, piece);
      matches.clear();
      parts.clear();
      for (const char *p = text.data(), *end = p + text.size(); p != end;) {
        const auto begin = static_cast<uint32_t>(p - text.data());
        if (predicate_(next_char(p))) matches.push_back({begin, static_cast<uint32_t>(p - text.data())});
      }
      append_parts(piece, matches, false, parts);
      append_merged(parts, behavior_, out);
    }
    Split::update(pieces, std::move(out));
  }

 private:
  std::function<bool(char32_t)> predicate_;
  Behavior behavior_;
};

// Rebuilds the text piece by piece with rewrite(piece, is_first_of_input, out).
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  std::string out;
  out.reserve(pieces.text.size() + pieces.text.size() / 2);
  for (size_t i = 0; i < pieces.spans.size(); ++i) {
    const auto begin = static_cast<uint32_t>(out.size());
    rewrite(slice(pieces.text, pieces.spans[i]), pieces.starts_input && i == 0, out);
    pieces.spans[i] = {begin, static_cast<uint32_t>(out.size())};
  }
  pieces.rewritten = std::move(out);
  pieces.text = pieces.rewritten;
}

class PrefixSpace : public PreTokenizer {
  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out += ' ';
      out += piece;
    });
  }
};

class ByteLevelMapping : public PreTokenizer {
  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
      append_byte_level_encoded(piece, out);
    });
  }
};

enum class PrependScheme { kAlways, kFirst, kNever };

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)),
        scheme_(scheme),
        split_(split
                   ? std::make_unique<Split>(Pattern::literal(replacement_), Behavior::kMergedWithNext, false)
                   : nullptr) {}

  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
      const bool prepend =
          scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && is_first);
      if (prepend && !piece.starts_with(' ') && !piece.starts_with(replacement_)) out += replacement_;
      for (const char c : piece) c == ' ' ? out += replacement_ : out += c;
    });
    if (split_) split_->apply(pieces);
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  std::unique_ptr<Split> split_;
};

class Chain : public PreTokenizer {
 public:
  explicit Chain(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void apply(Pieces& pieces) const override {
    for (const auto& step : steps_) step->apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

using Steps = std::vector<std::unique_ptr<PreTokenizer>>;

// Steps, flat: a Sequence inside a Sequence adds its own to the same list.
void append_steps(const JsonView& json, Steps& steps);

void append_sequence(const JsonView& json, Steps& steps) {
  for (const JsonView& part : json.at("pretokenizers").items()) append_steps(part, steps);
}

void append_byte_level(const JsonView& json, Steps& steps) {
  if (json.boolean_or("add_prefix_space", true)) steps.push_back(std::make_unique<PrefixSpace>());
  if (json.boolean_or("use_regex", true)) steps.push_back(std::make_unique<Scan>(find_scanner(kGpt2Pattern)));
  steps.push_back(std::make_unique<ByteLevelMapping>());
}

void append_split(const JsonView& json, Steps& steps) {
  const JsonView pattern = json.at("pattern");
  const Behavior behavior = parse_behavior(json.at("behavior"));
  const bool invert = json.boolean_or("invert", false);
  const auto regex = pattern.find("Regex");
  const Scanner scanner = regex ? find_scanner(regex->text()) : nullptr;
  if (scanner && (behavior == Behavior::kIsolated || (behavior == Behavior::kRemoved && invert))) {
    steps.push_back(std::make_unique<Scan>(scanner));
  } else {
    steps.push_back(std::make_unique<Split>(Pattern::from_json(pattern), behavior, invert));
  }
}

void append_metaspace(const JsonView& json, Steps& steps) {
  const std::string_view name =
      json.text_or("prepend_scheme", json.boolean_or("add_prefix_space", true) ? "always" : "never");
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else if (name != "always") {
    json.unknown("prepend_scheme", name, "always first never");
  }
  steps.push_back(std::make_unique<Metaspace>(std::string(json.text_or("replacement", "\xE2\x96\x81")),
                                              scheme, json.boolean_or("split", true)));
}

void append_chars(Steps& steps, std::function<bool(char32_t)> predicate, Behavior behavior) {
  steps.push_back(std::make_unique<SplitChars>(std::move(predicate), behavior));
}

void append_bert(const JsonView&, Steps& steps) {
  append_chars(steps, is_space, Behavior::kRemoved);
  append_chars(steps, is_punctuation, Behavior::kIsolated);
}

void append_digits(const JsonView& json, Steps& steps) {
  append_chars(
      steps, [](char32_t c) { return (char_class(c) & kNumber) != 0; },
      json.boolean_or("individual_digits", false) ? Behavior::kIsolated : Behavior::kContiguous);
}

void append_punctuation(const JsonView& json, Steps& steps) {
  const auto behavior = json.find("behavior");
  append_chars(steps, is_punctuation, behavior ? parse_behavior(*behavior) : Behavior::kIsolated);
}

void append_whitespace(const JsonView& json, Steps& steps) {
  steps.push_back(
      std::make_unique<Split>(Pattern::regex(kWordOrSigns, json.where()), Behavior::kRemoved, true));
}

void append_whitespace_split(const JsonView&, Steps& steps) {
  append_chars(steps, is_space, Behavior::kRemoved);
}

void append_delimiter(const JsonView& json, Steps& steps) {
  const std::string delimiter(json.text("delimiter"));
  steps.push_back(std::make_unique<Split>(Pattern::literal(delimiter), Behavior::kRemoved, false));
}

constexpr struct {
  std::string_view type;
  void (*append)(const JsonView&, Steps&);
} kPreTokenizers[] = {
    {"Sequence", append_sequence},
    {"ByteLevel", append_byte_level},
    {"Split", append_split},
    {"Metaspace", append_metaspace},
    {"BertPreTokenizer", append_bert},
    {"Whitespace", append_whitespace},
    {"WhitespaceSplit", append_whitespace_split},
    {"CharDelimiterSplit", append_delimiter},
    {"Digits", append_digits},
    {"Punctuation", append_punctuation},
};

void append_steps(const JsonView& json, Steps& steps) {
  const std::string_view type = json.text("type");
  std::string known;
  for (const auto& row : kPreTokenizers) {
    if (row.type == type) return row.append(json, steps);
    known += str(known.empty() ? "" : " ", row.type);
  }
  json.unknown("pre_tokenizer", type, known);
}

}  // namespace

PreTokenizerPlan make_pre_tokenizer(const JsonView& json) {
  Steps steps;
  append_steps(json, steps);
  PreTokenizerPlan plan;
  plan.bytes_at_end = !steps.empty() && dynamic_cast<ByteLevelMapping*>(steps.back().get());
  if (plan.bytes_at_end) steps.pop_back();
  if (!steps.empty()) plan.steps = std::make_unique<Chain>(std::move(steps));
  return plan;
}

std::unique_ptr<PreTokenizer> make_byte_level_mapping(std::unique_ptr<PreTokenizer> before) {
  Steps steps;
  if (before) steps.push_back(std::move(before));
  steps.push_back(std::make_unique<ByteLevelMapping>());
  return std::make_unique<Chain>(std::move(steps));
}

}  // namespace octavo::tok
