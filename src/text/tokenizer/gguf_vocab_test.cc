#include "text/tokenizer/gguf_vocab.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/gguf_test_vocab.h"
#include "text/tokenizer/tokenizer.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

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

class GgufVocabulary : public testing::TestWithParam<GgufFamily> {};

TEST_P(GgufVocabulary, GivesTheSameIdsAsTokenizerJson) {
  expect_golden(*Tokenizer::from_vocab(gguf_from(GetParam())), GetParam().golden);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufVocabulary, testing::ValuesIn(kGgufFamilies),
                         [](const auto& test) { return std::string(test.param.golden); });

TEST(GgufVocabularyOfScores, GivesTheSameIdsAsTokenizerJson) {
  const auto tokenizer = Tokenizer::from_vocab(llama2_gguf());
  expect_golden(*tokenizer, "llama2_spm");
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->adds_bos());
}

TEST(GgufVocabularyOfScores, ObeysItsFlags) {
  GgufVocab vocab = llama2_gguf();
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
