#include "text/tokenizer/post_processor.h"

#include <algorithm>
#include <optional>

#include "text/tokenizer/json_view.h"
#include "text/tokenizer/vocab.h"

namespace octavo::tok {
namespace {

constexpr int32_t kA = PostProcessor::kFirst, kB = PostProcessor::kSecond;

int32_t checked_id(const JsonView& json) {
  const int64_t id = json.integer();
  if (id < 0 || id >= Vocab::kMaxIds) throw Error(json.where(), ": ", id, " is no token id");
  return static_cast<int32_t>(id);
}

// [{"SpecialToken": {"id": name}}, {"Sequence": {"id": "A"}}, ...]; the names' ids stand in `special`.
std::vector<int32_t> read_template(const JsonView& json, const std::optional<JsonView>& special) {
  std::vector<int32_t> pattern;
  for (const JsonView& piece : json.items()) {
    if (const auto sequence = piece.find("Sequence")) {
      const std::string_view name = sequence->text("id");
      if (name != "A" && name != "B") sequence->unknown("sequence", name, "A B");
      pattern.push_back(name == "A" ? kA : kB);
      continue;
    }
    const JsonView token = piece.at("SpecialToken");
    const auto entry = special ? special->find(token.text("id")) : std::nullopt;
    if (!entry) throw Error(token.where(), ": \"", token.text("id"), "\" is not among the special_tokens");
    for (const JsonView& id : entry->at("ids").items()) pattern.push_back(checked_id(id));
  }
  return pattern;
}

PostProcessor make_template(const JsonView& json) {
  const auto special = json.find("special_tokens");
  return PostProcessor(read_template(json.at("single"), special), read_template(json.at("pair"), special));
}

// ["[SEP]", 102]
int32_t token_pair_id(const JsonView& json) {
  const std::vector<JsonView> pair = json.items();
  if (pair.size() != 2) throw Error(json.where(), ": expected [token, id]");
  return checked_id(pair[1]);
}

PostProcessor make_bert(const JsonView& json) {
  const int32_t cls = token_pair_id(json.at("cls")), sep = token_pair_id(json.at("sep"));
  return PostProcessor({cls, kA, sep}, {cls, kA, sep, kB, sep});
}

PostProcessor make_roberta(const JsonView& json) {
  const int32_t cls = token_pair_id(json.at("cls")), sep = token_pair_id(json.at("sep"));
  return PostProcessor({cls, kA, sep}, {cls, kA, sep, sep, kB, sep});
}

// It moves offsets only.
PostProcessor make_byte_level(const JsonView&) { return PostProcessor(); }

PostProcessor make_sequence(const JsonView& json) {
  PostProcessor result;
  bool found = false;
  for (const JsonView& part : json.at("processors").items()) {
    if (part.text("type") == "ByteLevel") continue;
    if (found) throw Error(part.where(), ": a second post-processor that adds tokens");
    result = PostProcessor::from_json(part);
    found = true;
  }
  return result;
}

constexpr struct {
  std::string_view type;
  PostProcessor (*make)(const JsonView&);
} kPostProcessors[] = {
    {"TemplateProcessing", make_template}, {"ByteLevel", make_byte_level}, {"BertProcessing", make_bert},
    {"RobertaProcessing", make_roberta},   {"Sequence", make_sequence},
};

}  // namespace

PostProcessor::PostProcessor(std::vector<int32_t> single, std::vector<int32_t> pair)
    : single_(std::move(single)), pair_(std::move(pair)) {}

PostProcessor PostProcessor::from_json(const JsonView& json) {
  const std::string_view type = json.text("type");
  std::string known;
  for (const auto& row : kPostProcessors) {
    if (row.type == type) return row.make(json);
    known += str(known.empty() ? "" : " ", row.type);
  }
  json.unknown("post_processor", type, known);
}

std::vector<int32_t> PostProcessor::fill(const std::vector<int32_t>& pattern,
                                         const std::vector<int32_t>& first,
                                         const std::vector<int32_t>& second) {
  std::vector<int32_t> ids;
  ids.reserve(pattern.size() + first.size() + second.size());
  for (const int32_t part : pattern) {
    if (part >= 0) {
      ids.push_back(part);
    } else {
      const std::vector<int32_t>& sequence = part == kFirst ? first : second;
      ids.insert(ids.end(), sequence.begin(), sequence.end());
    }
  }
  return ids;
}

std::vector<int32_t> PostProcessor::before() const {
  return {single_.begin(), std::find(single_.begin(), single_.end(), kFirst)};
}

std::vector<int32_t> PostProcessor::after() const {
  const auto at = std::find(single_.begin(), single_.end(), kFirst);
  return {at == single_.end() ? at : at + 1, single_.end()};
}

}  // namespace octavo::tok
