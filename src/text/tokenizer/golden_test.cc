// Every string of every golden tokenizer, id for id and byte for byte.
#include <gtest/gtest.h>

#include <map>

#include "text/detokenizer.h"
#include "text/tokenizer/golden_test_data.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

class GoldenTokenizer : public testing::TestWithParam<std::string> {
 protected:
  // Loaded once: gtest runs the tests one by one, each over all tokenizers.
  static const Tokenizer* load(const std::string& name) {
    static std::map<std::string, std::unique_ptr<Tokenizer>> loaded;
    std::unique_ptr<Tokenizer>& tokenizer = loaded[name];
    if (!tokenizer) {
      const std::string path = "tokenizers/" + name + "/tokenizer.json.gz";
      tokenizer = Tokenizer::from_json(read_golden(path), path);
    }
    return tokenizer.get();
  }
  const Tokenizer* tokenizer_ = load(GetParam());
  const bool has_byte_tokens_ = tokenizer_->id_of("<0x80>").has_value();
  const Json golden_ = Json::parse(read_golden("tokenizers/" + GetParam() + "/golden.json.gz"));
};

TEST_P(GoldenTokenizer, VocabularySize) {
  EXPECT_EQ(tokenizer_->vocab_size(), golden_.at("vocab_size").get<int32_t>());
  for (int32_t id = 0; id < tokenizer_->vocab_size(); id += 97) {
    EXPECT_EQ(tokenizer_->id_of(tokenizer_->token_of(id)), id);
  }
}

TEST_P(GoldenTokenizer, EncodesAndDecodesEachString) {
  for (const Json& item : golden_.at("items")) {
    const std::string text = item.at("text");
    SCOPED_TRACE(text);
    const Ids ids = item.at("ids"), ids_special = item.value("ids_special", ids);
    EXPECT_EQ(tokenizer_->encode(text, false), ids);
    EXPECT_EQ(tokenizer_->encode(text, true), ids_special);
    const std::string decoded = item.value("decoded", text), skipped = item.value("decoded_skip", decoded);
    EXPECT_EQ(tokenizer_->decode(ids, false), decoded);
    EXPECT_EQ(tokenizer_->decode(ids, true), skipped);
    EXPECT_EQ(tokenizer_->decode(ids_special, false), item.value("decoded_special", decoded));
    EXPECT_EQ(tokenizer_->decode(ids_special, true), item.value("decoded_special_skip", skipped));
  }
}

TEST_P(GoldenTokenizer, EncodesPairs) {
  for (const Json& item : golden_.at("pairs")) {
    EXPECT_EQ(tokenizer_->encode_pair(item.at("a").get<std::string>(), item.at("b").get<std::string>(), true),
              item.at("ids").get<Ids>());
  }
}

TEST_P(GoldenTokenizer, DecodesArbitraryIds) {
  for (const char* list : {"decode_random", "decode_low"}) {
    for (const Json& item : golden_.at(list)) {
      const Ids ids = item.at("ids");
      EXPECT_EQ(tokenizer_->decode(ids, false), item.at("decoded").get<std::string>());
      EXPECT_EQ(tokenizer_->decode(ids, true), item.at("decoded_skip").get<std::string>());
    }
  }
}

// The reference holds back any text that ends with U+FFFD, we only what may still become a character. So our
// text after each step is the reference's whole text, without the U+FFFD for what is unfinished.
TEST_P(GoldenTokenizer, StreamsLikeTheReference) {
  for (const Json& item : golden_.at("stream")) {
    const Ids ids = item.at("ids");
    Detokenizer detokenizer(*tokenizer_, {}, false);
    std::string text;
    for (size_t k = 0; k < ids.size(); ++k) {
      text += detokenizer.push(ids[k]);
      const std::string whole = item.at("prefix_decodes")[k];
      // With byte fallback an unfinished character turns the whole run of bytes before it into U+FFFD for a
      // while.
      if (!has_byte_tokens_) {
        EXPECT_TRUE(whole.starts_with(text)) << whole << " / " << text;
      }
      const Json& chunk = item.at("stream_chunks")[k];
      const bool is_final = chunk.is_string() || !whole.ends_with(kReplacementChar);
      if (is_final) {
        EXPECT_EQ(text, whole);
      }
    }
    EXPECT_EQ(text + detokenizer.finish(), item.at("prefix_decodes").back().get<std::string>());
  }
}

// Byte-level vocabularies: joined deltas equal decode for any ids. (With byte fallback, see the Detokenizer.)
TEST_P(GoldenTokenizer, StreamsArbitraryIds) {
  for (const char* list : {"decode_random", "decode_low"}) {
    for (const Json& item : golden_.at(list)) {
      const Ids ids = item.at("ids");
      Detokenizer detokenizer(*tokenizer_, {}, true);
      std::string text;
      for (const int32_t id : ids) {
        text += detokenizer.push(id);
        EXPECT_TRUE(is_valid_utf8(text));
      }
      text += detokenizer.finish();
      EXPECT_TRUE(is_valid_utf8(text));
      if (!has_byte_tokens_) {
        EXPECT_EQ(text, item.at("decoded_skip").get<std::string>());
      }
    }
  }
}

TEST_P(GoldenTokenizer, EncodesRenderedChats) {
  const std::string path = "tokenizers/" + GetParam() + "/chat_golden.json.gz";
  const bool has_template = std::ifstream(golden_path(path)).good();
  const bool is_chat_model = GetParam() != "bert_uncased" && GetParam() != "gpt2" &&
                             GetParam() != "llama2_spm" && GetParam() != "whisper";
  ASSERT_EQ(has_template, is_chat_model);
  if (!has_template) return;
  const Json golden = Json::parse(read_golden(path));
  for (const Json& item : golden.at("items")) {
    if (!item.contains("rendered")) continue;
    EXPECT_EQ(tokenizer_->encode(item.at("rendered").get<std::string>(), false), item.at("ids").get<Ids>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer, testing::ValuesIn(kGoldenTokenizers),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace octavo::tok
