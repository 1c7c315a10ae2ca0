// Components and options that the real tokenizers do not have, against what Hugging Face's library makes of
// them (testdata/components.json, written by testdata/make_components.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const Json& cases() {
  static const Json list = [] {
    std::ifstream file(OCTAVO_SOURCE_DIR "/src/text/tokenizer/testdata/components.json");
    if (!file) throw Error("testdata/components.json: cannot open");
    return Json::parse(file);
  }();
  return list;
}

std::unique_ptr<Tokenizer> load(const Json& test) {
  return Tokenizer::from_json(test.at("tokenizer").dump(), test.at("name"));
}

TEST(TokenizerComponents, EncodeAsTheReference) {
  ASSERT_GT(cases().size(), 90u);
  for (const Json& test : cases()) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tokenizer = load(test);
    for (const Json& item : test.at("items")) {
      const std::string text = item.at("text");
      SCOPED_TRACE(item.at("text").dump());
      EXPECT_EQ(tokenizer->encode(text, false), item.at("ids").get<Ids>());
      EXPECT_EQ(tokenizer->encode(text, true), item.at("ids_special").get<Ids>());
    }
    EXPECT_EQ(tokenizer->encode_pair("a b", "c", true), test.at("pair").get<Ids>());
  }
}

TEST(TokenizerComponents, DecodeAsTheReference) {
  for (const Json& test : cases()) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const auto tokenizer = load(test);
    for (const Json& item : test.at("decoded")) {
      SCOPED_TRACE(item.at("ids").dump());
      EXPECT_EQ(tokenizer->decode(item.at("ids").get<Ids>(), false), item.at("text").get<std::string>());
    }
  }
}

// The streamed text is the decoded one for all decoders that can be streamed; the others strip the end of a
// text or look at its last token, which nobody knows before it is there.
TEST(TokenizerComponents, StreamAsDecode) {
  for (const Json& test : cases()) {
    const std::string name = test.at("name");
    SCOPED_TRACE(name);
    if (name == "decoder-bpe" || name == "bpe-affixes" || name == "decoder-fused-strip") continue;
    const auto tokenizer = load(test);
    for (const Json& item : test.at("decoded")) {
      const std::string decoded = item.at("text");
      if (decoded.find("\uFFFD") != decoded.npos) continue;
      Detokenizer detokenizer(*tokenizer, {}, false);
      std::string text;
      for (const int32_t id : item.at("ids").get<Ids>()) text += detokenizer.push(id);
      EXPECT_EQ(text + detokenizer.finish(), decoded) << item.at("ids");
    }
  }
}

}  // namespace
}  // namespace octavo::tok
