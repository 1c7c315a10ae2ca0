#include "base/error.h"
#include "load/gguf.h"

namespace octavo {
namespace {

constexpr size_t kMaxTokens = 1 << 24;

std::optional<int32_t> token_id(const GgufFile& file, const std::string& name, size_t tokens) {
  std::string key = "tokenizer.ggml." + name;
  std::optional<int64_t> id = file.integer(key);
  if (!id) return std::nullopt;
  // Files hold -1 (also as an unsigned number) for "none".
  if (*id == -1 || *id == 0xffffffff) return std::nullopt;
  if (*id < 0 || static_cast<uint64_t>(*id) >= tokens)
    throw Error(file.origin(), ": ", key, " ", *id, " is not one of the ", tokens, " tokens");
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> token_types(const GgufFile& file) {
  std::vector<int32_t> out;
  for (int64_t type : file.integers("tokenizer.ggml.token_type")) {
    if (type < 0 || type > 1 << 16) throw Error(file.origin(), ": tokenizer.ggml.token_type ", type);
    out.push_back(static_cast<int32_t>(type));
  }
  return out;
}

}  // namespace

GgufTokenizer gguf_tokenizer(const GgufFile& file) {
  GgufTokenizer out;
  auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  out.model = file.text(key("model")).value_or("");
  out.pre = file.text(key("pre")).value_or("");
  out.tokens = file.texts(key("tokens"));
  out.scores = file.floats(key("scores"));
  out.token_types = token_types(file);
  out.merges = file.texts(key("merges"));
  size_t tokens = out.tokens.size();
  if (out.model.empty() || tokens == 0)
    throw Error(file.origin(), ": holds no tokenizer (tokenizer.ggml.model, .tokens)");
  if (tokens > kMaxTokens) throw Error(file.origin(), ": ", tokens, " tokens, at most ", kMaxTokens);
  if (!out.scores.empty() && out.scores.size() != tokens)
    throw Error(file.origin(), ": tokenizer.ggml.scores has ", out.scores.size(), " values for ", tokens,
                " tokens");
  if (!out.token_types.empty() && out.token_types.size() != tokens)
    throw Error(file.origin(), ": tokenizer.ggml.token_type has ", out.token_types.size(), " values for ",
                tokens, " tokens");
  struct IdRow {
    const char* name;
    std::optional<int32_t> GgufTokenizer::*field;
  };
  static constexpr IdRow kIds[] = {{"bos_token_id", &GgufTokenizer::bos_id},
                                   {"eos_token_id", &GgufTokenizer::eos_id},
                                   {"eot_token_id", &GgufTokenizer::eot_id},
                                   {"eom_token_id", &GgufTokenizer::eom_id},
                                   {"unknown_token_id", &GgufTokenizer::unknown_id},
                                   {"seperator_token_id", &GgufTokenizer::separator_id},  // sic
                                   {"padding_token_id", &GgufTokenizer::padding_id},
                                   {"cls_token_id", &GgufTokenizer::cls_id},
                                   {"mask_token_id", &GgufTokenizer::mask_id}};
  for (const IdRow& row : kIds) out.*row.field = token_id(file, row.name, tokens);
  out.add_bos = file.boolean(key("add_bos_token"));
  out.add_eos = file.boolean(key("add_eos_token"));
  out.add_space_prefix = file.boolean(key("add_space_prefix"));
  out.remove_extra_whitespaces = file.boolean(key("remove_extra_whitespaces"));
  for (int64_t byte : file.integers(key("precompiled_charsmap")))
    out.precompiled_charsmap += static_cast<char>(byte);
  const std::string named = "tokenizer.chat_template.";
  out.chat_template = file.text("tokenizer.chat_template");
  for (const std::string& name : file.keys())
    if (name.starts_with(named))
      out.named_chat_templates[name.substr(named.size())] = file.text(name).value();
  return out;
}

}  // namespace octavo
