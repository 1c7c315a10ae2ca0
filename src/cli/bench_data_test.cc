#include "cli/bench_data.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/event_reader.h"

namespace octavo {
namespace {

BenchTokenizer tokenizer() {  // one token a character
  return {.vocab = 1000,
          .encode = [](const std::string& text) { return std::vector<int32_t>(text.size(), 1); },
          .decode = [](const std::vector<int32_t>& ids) { return std::string(ids.size(), 'a'); }};
}

std::vector<BenchRequest> from_text(const std::string& name, const std::string& path,
                                    const std::string& text) {
  DatasetOptions options;
  options.name = name;
  options.path = path;
  options.num_prompts = 3;
  return dataset_requests(text, options, tokenizer());
}

TEST(BenchData, ReadsConversations) {
  auto requests = from_text("sharegpt", "d.json",
                            R"([{"conversations": [{"value": "hello"}, {"value": "a reply"}, {"value": "x"}]},
                                {"conversations": [{"value": "hello"}, 7]}, {"conversations": [{}, {}]},
                                {"conversations": [{"value": 5}, {"value": null}]}, {"conversations": 1}, 3])");
  ASSERT_EQ(requests.size(), 3u);  // the one that is usable, repeated
  EXPECT_EQ(requests[2].text, "hello");
  EXPECT_EQ(requests[2].output_len, 7);
}

TEST(BenchData, ReadsCustomPrompts) {
  auto requests = from_text("custom", "d.jsonl", "{\"prompt\": \"ab\", \"output_tokens\": 9}\r\n\n \n");
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].ids.size(), 2u);
  EXPECT_EQ(requests[0].output_len, 9);
  EXPECT_EQ(from_text("custom", "d.json", R"([{"prompt": "ab"}])")[0].output_len, 256);
}

TEST(BenchData, RefusesOtherFiles) {
  for (const char* text :
       {"", "{}", "[", "[]", "[{\"prompt\": 1}]", "[{\"prompt\": \"a\", \"output_tokens\": -1}]",
        "[{\"prompt\": \"a\", \"output_tokens\": \"many\"}]",
        "[{\"prompt\": \"a\", \"output_tokens\": 1e99}]"})
    EXPECT_THROW(from_text("custom", "d.json", text), Error) << text;
  EXPECT_THROW(from_text("custom", "d.jsonl", "[]\n"), Error);
}

TEST(BenchData, RefusesImpossibleLengths) {
  auto make = [](auto change) {
    DatasetOptions options{.num_prompts = 2, .input_len = 4};
    change(options);
    return make_requests(options, tokenizer(), false);
  };
  EXPECT_EQ(make([](auto&) {}).size(), 2u);
  EXPECT_THROW(make([](auto& o) { o.input_len = -5; }), Error);
  EXPECT_THROW(make([](auto& o) { o.output_len = INT64_MAX; }), Error);
  EXPECT_THROW(make([](auto& o) { o.prefix_len = -1; }), Error);
  EXPECT_THROW(make([](auto& o) { o.name = "prefix_repetition", o.num_prefixes = 0; }), Error);
  for (const char* ratio : {"x", "1", "-0.5", "{\"input\": \"a\"}", "[0.1]", "1e999", "null"})
    EXPECT_THROW(make([&](auto& o) { o.range_ratio = ratio; }), Error) << ratio;
  EXPECT_EQ(make([](auto& o) { o.range_ratio = R"({"input": 0.5})"; }).size(), 2u);
}

TEST(EventReader, CutsAnywhere) {
  const std::string text = ": keep-alive\n\ndata: {\"a\": 1}\r\n\r\ndata: [DONE]\n\ndata: cut off";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    std::vector<std::string> events;
    EventReader reader;
    for (size_t at = 0; at < text.size(); at += piece)
      reader.push(text.substr(at, piece), [&](std::string_view event) { events.emplace_back(event); });
    EXPECT_EQ(events, (std::vector<std::string>{"{\"a\": 1}", "[DONE]"})) << piece;
  }
}

}  // namespace
}  // namespace octavo
