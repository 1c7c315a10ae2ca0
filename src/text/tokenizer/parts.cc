#include "text/tokenizer/parts.h"

#include "text/tokenizer/json_view.h"

namespace octavo::tok {
namespace {

std::vector<AddedToken> read_added_tokens(const JsonView& json, const Vocab& vocab) {
  std::vector<AddedToken> tokens;
  for (const JsonView& item : json.items()) {
    AddedToken token;
    token.content = item.text("content");
    const int64_t id = item.at("id").integer();
    if (id < 0 || id >= Vocab::kMaxIds)
      throw Error(item.where(), ".id: ", id, " is not in 0..", Vocab::kMaxIds - 1);
    // The model's own id counts, as in the reference.
    const int32_t own = vocab.find(token.content);
    token.id = own >= 0 ? own : static_cast<int32_t>(id);
    token.single_word = item.boolean_or("single_word", false);
    token.lstrip = item.boolean_or("lstrip", false);
    token.rstrip = item.boolean_or("rstrip", false);
    token.special = item.boolean_or("special", false);
    token.normalized = item.boolean_or("normalized", !token.special);
    if (!token.content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

void build(const JsonView& root, Parts& parts) {
  if (const auto json = root.find("normalizer")) parts.normalizer = make_normalizer(*json);
  PreTokenizerPlan plan;
  if (const auto json = root.find("pre_tokenizer")) plan = make_pre_tokenizer(*json);
  const JsonView model = root.at("model");
  const bool raw_bytes = plan.bytes_at_end && model_knows_bytes(model);
  parts.pre_tokenizer = plan.bytes_at_end && !raw_bytes ? make_byte_level_mapping(std::move(plan.steps))
                                                        : std::move(plan.steps);
  parts.model = make_model(model, raw_bytes);
  if (const auto json = root.find("post_processor")) parts.post_processor = PostProcessor::from_json(*json);
  if (const auto json = root.find("decoder")) parts.decoder = Decoder::from_json(*json);
  if (const auto json = root.find("added_tokens"))
    parts.added = read_added_tokens(*json, parts.model->vocab());
}

}  // namespace

Parts parse_parts(std::string_view json, const std::string& origin) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  const auto error = parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) throw Error(origin, ": not JSON: ", simdjson::error_message(error));
  Parts parts;
  build(JsonView(root, origin), parts);
  return parts;
}

}  // namespace octavo::tok
