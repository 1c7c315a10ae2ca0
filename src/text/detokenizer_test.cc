#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "text/tokenizer/golden_test_data.h"
#include "text/tokenizer/utf8.h"

namespace octavo {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> load(const std::string& name) {
  return Tokenizer::from_json(tok::read_golden("tokenizers/" + name + "/tokenizer.json.gz"), name);
}

std::string stream(const Tokenizer& tokenizer, const Ids& prompt, const Ids& output, bool skip = true) {
  Detokenizer detokenizer(tokenizer, prompt, skip);
  std::string text;
  for (const int32_t id : output) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

size_t count_replacements(const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find("\uFFFD"); at != text.npos; at = text.find("\uFFFD", at + 3)) ++count;
  return count;
}

// Issue BL-01: a prompt that ends inside a character, cut at each of its ids.
TEST(Detokenizer, PromptNeverLeaks) {
  for (const char* name : {"gpt2", "smollm2", "llama3_1", "qwen3", "llama2_spm", "gemma3"}) {
    const auto tokenizer = load(name);
    for (const std::string text :
         {"alpha beta 🌶", "สวัสดีชาวโลก", "你好，世界！𠜎𠜱", "na\u00efve 👩‍👩‍👧‍👦 end"}) {
      const Ids ids = tokenizer->encode(text, true);
      for (size_t cut = 0; cut <= ids.size(); ++cut) {
        const Ids prompt(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(cut));
        const Ids output(ids.begin() + static_cast<ptrdiff_t>(cut), ids.end());
        const std::string streamed = stream(*tokenizer, prompt, output);
        EXPECT_TRUE(tok::is_valid_utf8(streamed));
        EXPECT_TRUE(text.ends_with(streamed)) << name << " " << cut << ": " << streamed;
        // Together with the characters that the prompt has whole, nothing is lost.
        Detokenizer whole(*tokenizer, {}, true);
        std::string before;
        for (const int32_t id : prompt) before += whole.push(id);
        EXPECT_EQ(before + streamed, text) << name << " " << cut;
        // Something else follows: the broken character is the prompt's.
        const Ids other = tokenizer->encode("<", false);
        EXPECT_EQ(count_replacements(stream(*tokenizer, prompt, other)), 0u) << name << " " << cut;
        EXPECT_EQ(stream(*tokenizer, prompt, {}), "");
      }
    }
  }
}

TEST(Detokenizer, UnfinishedCharacterIsOneReplacement) {
  for (const char* name : {"gpt2", "llama2_spm"}) {
    const auto tokenizer = load(name);
    Ids ids = tokenizer->encode("a 😀", false);
    ids.pop_back();
    const std::string text = stream(*tokenizer, {}, ids);
    EXPECT_EQ(text, "a \uFFFD") << name;
  }
}

TEST(Detokenizer, BrokenBytesLookAsInDecode) {
  const auto gpt2 = load("gpt2");
  const auto byte = [&](const std::string& spelled) { return gpt2->id_of(spelled).value(); };
  const Ids ids = {byte("\u0120"), byte("\u00e5"), byte("\""), byte("\u00ff"),
                   byte("\u00e2"), byte("\u0124"), byte("a")};
  EXPECT_EQ(stream(*gpt2, {}, ids), gpt2->decode(ids, true));
  const auto llama = load("llama2_spm");
  const Ids bytes = {llama->id_of("<0xF0>").value(), llama->id_of("<0x9F>").value(),
                     llama->id_of("a").value()};
  EXPECT_EQ(stream(*llama, {}, bytes), "\uFFFD\uFFFDa");
  EXPECT_EQ(stream(*llama, {}, bytes), llama->decode(bytes, true));
}

TEST(Detokenizer, KeepsTheSpaceAfterAPrompt) {
  const auto llama = load("llama2_spm");
  const Ids hello = {15043};
  EXPECT_EQ(stream(*llama, {}, hello), "Hello");
  EXPECT_EQ(stream(*llama, {15043}, hello), " Hello");
  EXPECT_EQ(stream(*llama, {1}, hello), "Hello");  // <s> is left out, so the text starts with the output
  EXPECT_EQ(stream(*llama, {1}, hello, false), " Hello");
  EXPECT_EQ(stream(*llama, {1, 29871}, hello), " Hello");  // the prompt's own space was the one to drop
}

TEST(Detokenizer, SkipsSpecialTokensAndUnknownIds) {
  const auto llama = load("llama3_1");
  const Ids ids = {128000, 9906, -5, 1 << 29, 128009, 1917};
  EXPECT_EQ(stream(*llama, {}, ids), "Hello world");
  EXPECT_EQ(stream(*llama, {}, ids, false), "<|begin_of_text|>Hello<|eot_id|> world");
}

// Random ids, most of them broken text: what was sent stays true, and equals decode where characters are
// bytes.
TEST(Detokenizer, RandomIdsEqualDecode) {
  std::mt19937 random(11);
  for (const char* name : {"gpt2", "qwen3", "gptoss"}) {
    const auto tokenizer = load(name);
    for (int round = 0; round < 300; ++round) {
      Ids ids(random() % 40);
      for (int32_t& id : ids)
        id = static_cast<int32_t>(random() % (random() % 4 ? 256 : tokenizer->vocab_size()));
      EXPECT_EQ(stream(*tokenizer, {}, ids), tokenizer->decode(ids, true));
    }
  }
}

}  // namespace
}  // namespace octavo
