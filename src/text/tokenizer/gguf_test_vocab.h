// For tests: golden tokenizers as the vocabularies that GGUF files of the same models carry.
#pragma once

#include "text/tokenizer/gguf_vocab.h"
#include "text/tokenizer/golden_test_data.h"

namespace octavo::tok {

/// What a GGUF file of the same model carries.
inline GgufVocab gguf_from(const std::string& name) {
  const nlohmann::json json = nlohmann::json::parse(read_golden(name));
  GgufVocab vocab;
  vocab.origin = name;
  const nlohmann::json& model = json.at("model");
  const auto set = [&](const std::string& token, int32_t id, int32_t type) {
    if (static_cast<size_t>(id) >= vocab.tokens.size()) {
      vocab.tokens.resize(id + 1);
      vocab.token_types.resize(id + 1, GgufVocab::kNormal);
    }
    vocab.tokens[id] = token;
    vocab.token_types[id] = type;
  };
  for (const auto& [token, id] : model.at("vocab").items()) {
    set(token, id, token.starts_with("<0x") && token.size() == 6 ? GgufVocab::kByte : GgufVocab::kNormal);
  }
  for (const nlohmann::json& added : json.at("added_tokens")) {
    set(added.at("content"), added.at("id"),
        added.at("special") ? GgufVocab::kControl : GgufVocab::kUserDefined);
  }
  for (const nlohmann::json& merge : model.at("merges")) {
    vocab.merges.push_back(merge.is_string()
                               ? merge.get<std::string>()
                               : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  vocab.model = "gpt2";
  return vocab;
}

/// A family of byte-level vocabularies: golden tokenizer, tokenizer.ggml.pre, BOS or -1.
struct GgufFamily {
  const char *golden, *pre;
  int32_t bos_id;
};
inline constexpr GgufFamily kGgufFamilies[] = {{"smollm2", "smollm", -1},         {"gpt2", "gpt-2", -1},
                                               {"llama3_1", "llama-bpe", 128000}, {"qwen3", "qwen2", -1},
                                               {"qwen3_5", "qwen35", -1},         {"gptoss", "gpt-4o", -1}};

inline GgufVocab gguf_from(const GgufFamily& family) {
  GgufVocab vocab = gguf_from(std::string("tokenizers/") + family.golden + "/tokenizer.json.gz");
  vocab.pre = family.pre;
  if (family.bos_id >= 0) vocab.bos_id = family.bos_id;
  return vocab;
}

/// Llama 2's scores: -(id - 259) for the tokens that merges make, but -1e9 for runs of spaces, so that they
/// are merged last.
inline GgufVocab llama2_gguf() {
  GgufVocab vocab = gguf_from("tokenizers/llama2_spm/tokenizer.json.gz");
  vocab.model = "llama";
  vocab.merges.clear();
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unk_id = 0;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) {
    std::string spaces;
    while (spaces.size() < vocab.tokens[id].size()) spaces += "\u2581";
    const bool run_of_spaces = id >= 259 && vocab.tokens[id] == spaces && spaces.size() > 3;
    vocab.scores.push_back(run_of_spaces ? -1e9f : id < 259 ? 0.0f : 259.0f - static_cast<float>(id));
  }
  return vocab;
}

}  // namespace octavo::tok
