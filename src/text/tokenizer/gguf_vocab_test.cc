#include "text/tokenizer/gguf_vocab.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/golden_test_data.h"
#include "text/tokenizer/tokenizer.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

// What a GGUF file of the same model carries.
GgufVocab gguf_from(const std::string& name) {
  const Json json = Json::parse(read_golden(name));
  GgufVocab vocab;
  vocab.origin = name;
  const Json& model = json.at("model");
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
  for (const Json& added : json.at("added_tokens")) {
    set(added.at("content"), added.at("id"),
        added.at("special") ? GgufVocab::kControl : GgufVocab::kUserDefined);
  }
  for (const Json& merge : model.at("merges")) {
    vocab.merges.push_back(merge.is_string()
                               ? merge.get<std::string>()
                               : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  vocab.model = "gpt2";
  return vocab;
}

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
  const Json golden = Json::parse(read_golden("tokenizers/" + name + "/golden.json.gz"));
  for (const Json& item : golden.at("items")) {
    const std::string text = item.at("text");
    SCOPED_TRACE(text);
    const Ids ids = item.at("ids"), ids_special = item.value("ids_special", ids);
    EXPECT_EQ(tokenizer.encode(text, false), ids);
    EXPECT_EQ(tokenizer.encode(text, true), ids_special);
    EXPECT_EQ(tokenizer.decode(ids, false), item.value("decoded", text));
  }
}

struct Family {
  const char *golden, *pre;
  int32_t bos_id;
};

class GgufVocabulary : public testing::TestWithParam<Family> {};

TEST_P(GgufVocabulary, GivesTheSameIdsAsTokenizerJson) {
  const auto [golden, pre, bos_id] = GetParam();
  GgufVocab vocab = gguf_from(std::string("tokenizers/") + golden + "/tokenizer.json.gz");
  vocab.pre = pre;
  if (bos_id >= 0) vocab.bos_id = bos_id;
  expect_golden(*Tokenizer::from_vocab(vocab), golden);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufVocabulary,
                         testing::Values(Family{"smollm2", "smollm", -1}, Family{"gpt2", "gpt-2", -1},
                                         Family{"llama3_1", "llama-bpe", 128000},
                                         Family{"qwen3", "qwen2", -1}, Family{"qwen3_5", "qwen35", -1},
                                         Family{"gptoss", "gpt-4o", -1}),
                         [](const auto& test) { return std::string(test.param.golden); });

// Llama 2's scores: -(id - 259) for the tokens that merges make, but -1e9 for runs of spaces, so that they
// are merged last.
GgufVocab llama2() {
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

TEST(GgufVocabularyOfScores, GivesTheSameIdsAsTokenizerJson) {
  const auto tokenizer = Tokenizer::from_vocab(llama2());
  expect_golden(*tokenizer, "llama2_spm");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
}

TEST(GgufVocabularyOfScores, ObeysItsFlags) {
  GgufVocab vocab = llama2();
  vocab.add_bos = false;
  vocab.add_eos = true;
  vocab.add_space_prefix = false;
  const auto tokenizer = Tokenizer::from_vocab(vocab);
  EXPECT_EQ(tokenizer->encode("Hello", true), (Ids{10994, 2}));
  EXPECT_EQ(tokenizer->decode(Ids{15043}, false), " Hello");
  EXPECT_FALSE(tokenizer->adds_bos());
}

std::string error_of(const GgufVocab& vocab) {
  try {
    Tokenizer::from_vocab(vocab);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(GgufVocabularyErrors, NameWhatIsWrong) {
  GgufVocab vocab;
  vocab.origin = "m.gguf";
  vocab.model = "bert";
  EXPECT_TRUE(error_of(vocab).starts_with("m.gguf: tokenizer.ggml.model: unknown model \"bert\""));
  vocab.model = "gpt2";
  EXPECT_EQ(error_of(vocab), "m.gguf: tokenizer.ggml.tokens is missing or empty");
  vocab.tokens = {"a", "b"};
  vocab.pre = "odd";
  EXPECT_TRUE(error_of(vocab).starts_with(
      "m.gguf: tokenizer.ggml.pre: unknown pre-tokenizer \"odd\"; known: default"));
  vocab.pre = "";
  EXPECT_EQ(error_of(vocab), "no error");
  vocab.merges = {"a b"};
  EXPECT_EQ(error_of(vocab), "m.gguf: tokenizer.ggml.merges[0]: \"a b\" is not a pair of tokens");
  vocab.merges.clear();
  vocab.token_types = {1};
  EXPECT_EQ(error_of(vocab), "m.gguf: tokenizer.ggml.token_type has 1 entries for 2 tokens");
  vocab.token_types.clear();
  vocab.bos_id = 2;
  EXPECT_EQ(error_of(vocab), "m.gguf: tokenizer.ggml.bos_token_id: 2 is no token");
  vocab.bos_id.reset();
  vocab.model = "llama";
  EXPECT_EQ(error_of(vocab), "m.gguf: tokenizer.ggml.scores has 0 entries for 2 tokens");
}

}  // namespace
}  // namespace octavo::tok
