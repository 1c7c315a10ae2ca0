#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "base/error.h"
#include "text/tokenizer/golden_test_data.h"
#include "text/tokenizer/merges.h"

namespace octavo::tok {
namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> load(const std::string& name) {
  return Tokenizer::from_json(read_golden("tokenizers/" + name + "/tokenizer.json.gz"), name);
}

std::string error_of(const std::string& json) {
  try {
    Tokenizer::from_json(json, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tokenizer, ErrorsNameFileAndPlace) {
  const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  const auto with = [&](const std::string& member) { return error_of("{" + member + ", " + model + "}"); };
  EXPECT_TRUE(error_of("{").starts_with("x.json: not JSON: "));
  EXPECT_EQ(error_of("{}"), "x.json: \"model\" is missing");
  EXPECT_EQ(error_of("[]"), "x.json: \"model\" is missing");
  EXPECT_TRUE(
      with(R"("normalizer": {"type": "Odd"})").starts_with("x.json.normalizer: unknown normalizer \"Odd\""));
  EXPECT_TRUE(with(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Odd"}]})")
                  .starts_with("x.json.pre_tokenizer.pretokenizers[0]: unknown pre_tokenizer \"Odd\""));
  EXPECT_TRUE(with(R"("post_processor": {"type": "Odd"})").starts_with("x.json.post_processor: unknown"));
  EXPECT_TRUE(with(R"("decoder": {"type": "Odd"})").starts_with("x.json.decoder: unknown decoder \"Odd\""));
  EXPECT_EQ(with(R"("decoder": {"type": 3})"), "x.json.decoder.type: expected a string");
  EXPECT_TRUE(error_of(R"({"model": {"type": "Odd"}})").starts_with("x.json.model: unknown model \"Odd\""));
  EXPECT_EQ(error_of(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}})"),
            "x.json.model.merges[0]: the result \"ab\" is not in the vocabulary");
  EXPECT_TRUE(error_of(R"({"model": {"type": "BPE", "vocab": {"a": 99999999}, "merges": []}})")
                  .starts_with("x.json.model.vocab: the id of \"a\""));
  EXPECT_EQ(error_of(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})"),
            "x.json.model.vocab: \"b\" has the id 0 of another token");
}

TEST(Tokenizer, PatternsCannotCutCharacters) {
  const auto with = [](const std::string& pattern) {
    return error_of(
        R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": {"type": )"
        R"("Split", "behavior": "Isolated", "pattern": {"Regex": ")" +
        pattern + "\"}}}");
  };
  for (const char* pattern : {R"(\\C)", R"(a\\C{2})", R"((?<=\\Ka)b)"})
    EXPECT_NE(with(pattern).find("regular expression"), std::string::npos) << pattern << with(pattern);
  EXPECT_EQ(with(R"(\\X)"), "no error");
}

// The tokenizers of the tiny models: loaded, and text survives.
TEST(Tokenizer, LoadsThoseOfTheTinyModels) {
  int count = 0;
  for (const auto& folder : std::filesystem::directory_iterator(golden_path("models"))) {
    const std::string name = "models/" + folder.path().filename().string() + "/tokenizer.json";
    const auto tokenizer = Tokenizer::from_json(read_golden(name), name);
    const std::string text = name.find("bert") == name.npos ? "The naïve  café, 12 日" : "the cat";
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, true), true), text) << name;
    ++count;
  }
  EXPECT_GT(count, 25);
}

TEST(Tokenizer, RepairsTextThatIsNotUtf8) {
  const auto tokenizer = load("gpt2");
  EXPECT_EQ(tokenizer->encode("a\xFF\xE2\x82z", false), tokenizer->encode("a\uFFFD\uFFFDz", false));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\xED\xA0\x80", false), false),
            "\uFFFD\uFFFD\uFFFD");  // a surrogate
}

TEST(Tokenizer, DecodeIgnoresIdsWithoutToken) {
  const auto tokenizer = load("gpt2");
  EXPECT_EQ(tokenizer->decode(Ids{-1, 15496, 1 << 30, INT32_MIN, 50257}, false), "Hello");
  EXPECT_EQ(tokenizer->token_of(-1), "");
  EXPECT_FALSE(tokenizer->is_special(50257));
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const auto llama = load("llama3_1");
  EXPECT_EQ(llama->bos_id(), 128000);
  EXPECT_TRUE(llama->adds_bos());
  EXPECT_TRUE(llama->is_special(128000));
  EXPECT_EQ(llama->id_of("<|eot_id|>"), 128009);
  EXPECT_EQ(llama->token_of(128009), "<|eot_id|>");
  const auto qwen = load("qwen3");
  EXPECT_EQ(qwen->bos_id(), std::nullopt);
  EXPECT_FALSE(qwen->adds_bos());
  EXPECT_FALSE(qwen->is_special(qwen->id_of("<think>").value()));
}

// Issue BL-03: words beside an added token; expected ids from the reference.
TEST(Tokenizer, WordsBesideAddedTokens) {
  const auto llama = load("llama3_1");
  EXPECT_EQ(llama->encode("<|eot_id|>user", false), (Ids{128009, 882}));
  EXPECT_EQ(llama->encode("<|eot_id|> user", false), (Ids{128009, 1217}));
  EXPECT_EQ(llama->encode("<|eot_id|>\nuser", false), (Ids{128009, 198, 882}));
  EXPECT_EQ(llama->encode("<|eot_id|>  user", false), (Ids{128009, 220, 1217}));
  EXPECT_EQ(llama->encode("user<|eot_id|>", false), (Ids{882, 128009}));
  const auto spm = load("llama2_spm");
  EXPECT_EQ(spm->encode("<s>user", false), (Ids{1, 1404}));
  EXPECT_EQ(spm->encode("<s> user", false), (Ids{1, 29871, 1404}));
  EXPECT_EQ(spm->encode("user</s>", false), (Ids{1404, 2}));
}

// 1 MB words: well under a second each on an idle machine; the limit leaves room for sanitizers and
// neighbours.
TEST(Tokenizer, LongWordsAreLinear) {
  std::mt19937 random(3);
  std::string letters(1'000'000, 'x');
  for (char& c : letters) c = static_cast<char>('a' + random() % 26);
  std::string marks = "a";
  while (marks.size() < letters.size()) marks += random() % 2 ? "\xCC\x81" : "\xCC\xA3";
  const std::vector<std::string> texts = {
      std::string(1'000'000, 'a'), letters, marks, std::string(1'000'000, ' '), std::string(1'000'000, '\n'),
      std::string(1'000'000, '7')};
  for (const char* name : {"smollm2", "qwen3", "llama2_spm", "bert_uncased"}) {
    const auto tokenizer = load(name);
    for (const std::string& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      EXPECT_GE(tokenizer->encode(text, true).size(), text[0] == '7' || name[0] != 'b' ? 1u : 0u);
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20))
          << name << " " << text.substr(0, 8);
    }
  }
}

TEST(Tokenizer, ConcurrentCallsAgree) {
  const auto tokenizer = load("smollm2");
  const std::string text = read_golden("generate/data/passage.txt") + read_golden("generate/data/mixed.txt");
  const Ids expected = tokenizer->encode(text, true);
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) equal += tokenizer->encode(text, true) == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
  EXPECT_EQ(tokenizer->decode(expected, false), text);
}

// The two merge loops and the definition itself, on random merges with many ties of place.
TEST(MergeSymbols, AgreesWithTheDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    MergeTable merges;
    int32_t next_id = 4;
    const int32_t id_bound = 4 + static_cast<int32_t>(random() % 30);
    while (next_id < id_bound) {
      const auto left = static_cast<int32_t>(random() % next_id),
                 right = static_cast<int32_t>(random() % next_id);
      if (merges.find(left, right).id >= 0) continue;
      merges.add(left, right, {static_cast<uint32_t>(random() % 1000 * 64 + next_id), next_id});
      ++next_id;
    }
    Ids symbols(random() % 120);
    for (int32_t& symbol : symbols) symbol = static_cast<int32_t>(random() % 4);
    Ids expected = symbols;
    for (;;) {
      size_t best = expected.size();
      uint32_t best_rank = UINT32_MAX;
      for (size_t i = 0; i + 1 < expected.size(); ++i) {
        const auto merge = merges.find(expected[i], expected[i + 1]);
        if (merge.rank < best_rank) best = i, best_rank = merge.rank;
      }
      if (best == expected.size()) break;
      expected[best] = merges.find(expected[best], expected[best + 1]).id;
      expected.erase(expected.begin() + static_cast<ptrdiff_t>(best) + 1);
    }
    merge_symbols(merges, symbols);
    EXPECT_EQ(symbols, expected);
  }
}

}  // namespace
}  // namespace octavo::tok
