// BL-03: every added token of every golden tokenizer, with all kinds of text before and behind it, against
// what Hugging Face's library makes of it (testdata/added_tokens.json, written by
// testdata/make_added_tokens.py).
#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/gguf_test_vocab.h"
#include "text/tokenizer/golden_test_data.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace octavo::tok {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

struct Added {
  std::string content;
  std::string decoded;  ///< Gemma's decoder turns U+2581 into spaces, in added tokens too
  int32_t id;
  bool special;
};

std::vector<Added> added_tokens(const std::string& name) {
  std::vector<Added> out;
  const Json json = Json::parse(read_golden("tokenizers/" + name + "/tokenizer.json.gz"));
  for (const Json& token : json.at("added_tokens")) {
    std::string decoded = token.at("content");
    for (size_t at; name == "gemma3" && (at = decoded.find("\u2581")) != decoded.npos;)
      decoded.replace(at, 3, " ");
    out.push_back({token.at("content"), decoded, token.at("id"), token.at("special")});
  }
  return out;
}

std::string with(std::string form, const std::string& token) {
  for (size_t at = 0; (at = form.find("{T}", at)) != form.npos; at += token.size())
    form.replace(at, 3, token);
  return form;
}

uLong crc(uLong so_far, std::string bytes) {
  return crc32(so_far, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
}

std::string bytes_of(Ids ids) {
  ids.push_back(-1);
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)};
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, bool skip) {
  Detokenizer detokenizer(tokenizer, {}, skip);
  std::string text;
  for (const int32_t id : ids) {
    text += detokenizer.push(id);
    EXPECT_TRUE(is_valid_utf8(text));
  }
  return text + detokenizer.finish();
}

void expect_reference(const Tokenizer& tokenizer, const std::string& name) {
  std::ifstream file(OCTAVO_SOURCE_DIR "/src/text/tokenizer/testdata/added_tokens.json");
  const Json stored = Json::parse(file).at(name);
  const std::vector<Added> added = added_tokens(name);
  ASSERT_EQ(added.size(), stored.at("added").get<size_t>());
  for (const Json& form : stored.at("forms")) {
    SCOPED_TRACE(name + ": " + form.at("form").dump());
    uLong ids_crc = 0, decoded_crc = 0, skipped_crc = 0;
    for (const Added& token : added) {
      const Ids ids = tokenizer.encode(with(form.at("form"), token.content), false);
      ids_crc = crc(ids_crc, bytes_of(ids));
      for (const bool skip : {false, true}) {
        const std::string text = tokenizer.decode(ids, skip);
        uLong& sum = skip ? skipped_crc : decoded_crc;
        sum = crc(sum, text + "\xff");
        if (name != "bert_uncased") {  // whose decoder looks at what follows
          ASSERT_EQ(streamed(tokenizer, ids, skip), text) << token.content;
        }
      }
    }
    EXPECT_EQ(ids_crc, form.at("ids").get<uLong>());
    EXPECT_EQ(decoded_crc, form.at("decoded").get<uLong>());
    EXPECT_EQ(skipped_crc, form.at("skipped").get<uLong>());
  }
}

class EveryAddedToken : public testing::TestWithParam<std::string> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::from_json(read_golden("tokenizers/" + GetParam() + "/tokenizer.json.gz"), GetParam());
};

TEST_P(EveryAddedToken, BesideTextAsTheReference) { expect_reference(*tokenizer_, GetParam()); }

TEST_P(EveryAddedToken, IsItsOwnId) {
  for (const Added& token : added_tokens(GetParam())) {
    ASSERT_EQ(tokenizer_->encode(token.content, false), Ids{token.id}) << token.content;
    ASSERT_EQ(tokenizer_->id_of(token.content), token.id) << token.content;
    ASSERT_EQ(tokenizer_->is_special(token.id), token.special) << token.content;
    ASSERT_EQ(tokenizer_->decode(Ids{token.id}, false), token.decoded);
    ASSERT_EQ(tokenizer_->decode(Ids{token.id}, true), token.special ? "" : token.decoded);
  }
}

/// Tokens of single bytes.
Ids byte_tokens(const Tokenizer& tokenizer, const std::string& bytes) {
  Ids out;
  for (const char c : bytes) {
    char fallback[8];
    snprintf(fallback, sizeof fallback, "<0x%02X>", static_cast<unsigned char>(c));
    std::string spelled;
    append_byte_level_encoded(std::string_view(&c, 1), spelled);
    auto id = tokenizer.id_of(fallback);
    out.push_back(id ? *id : tokenizer.id_of(spelled).value());
  }
  return out;
}

// A character that comes byte by byte, cut at each place by an added token: whole where the token is left out
// of the text, else broken on both sides of it; nothing is lost, doubled, or sent before it is settled.
TEST_P(EveryAddedToken, WithinACharacter) {
  if (GetParam() == "bert_uncased") {  // no tokens of bytes
    EXPECT_FALSE(tokenizer_->id_of("<0xC3>").has_value());
    return;
  }
  const bool fallback = tokenizer_->id_of("<0xC3>").has_value();
  const std::vector<Added> added = added_tokens(GetParam());
  for (size_t t = 0; t < added.size(); t += 1 + added.size() / 300) {
    const Added& token = added[t];
    for (const std::string character : {"\u00e9", "\u0e2a", "\u65e5", "\U0001F336", "\U0010FFFF"}) {
      const Ids bytes = byte_tokens(*tokenizer_, character);
      for (size_t cut = 1; cut < bytes.size(); ++cut) {
        Ids ids(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(cut));
        ASSERT_EQ(streamed(*tokenizer_, ids, false), kReplacementChar);  // the end of a text
        ids.push_back(token.id);
        ids.insert(ids.end(), bytes.begin() + static_cast<ptrdiff_t>(cut), bytes.end());
        if (token.special) {
          ASSERT_EQ(streamed(*tokenizer_, ids, true), character) << token.content;
        }
        // After the token, continuation bytes alone: each is broken. Before it, one U+FFFD for the start, or
        // one for each byte of a fallback.
        const auto replacements = [](size_t n) {
          std::string out;
          while (n-- > 0) out += kReplacementChar;
          return out;
        };
        const std::string text = streamed(*tokenizer_, ids, false);
        ASSERT_EQ(text, replacements(fallback ? cut : 1) + token.decoded + replacements(bytes.size() - cut))
            << token.content << " after " << cut << " bytes";
        ASSERT_EQ(text, tokenizer_->decode(ids, false));
        // As a prompt's end: its broken character is not ours to show.
        Detokenizer behind(*tokenizer_, std::span(ids).first(cut), false);
        ASSERT_EQ(behind.push(token.id) + behind.finish(), token.decoded);
      }
    }
  }
}

TEST(GgufAddedTokens, BesideTextAsTheReference) {
  for (const GgufFamily& family : kGgufFamilies)
    expect_reference(*Tokenizer::from_vocab(gguf_from(family)), family.golden);
  expect_reference(*Tokenizer::from_vocab(llama2_gguf()), "llama2_spm");
}

INSTANTIATE_TEST_SUITE_P(All, EveryAddedToken, testing::ValuesIn(kGoldenTokenizers),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace octavo::tok
