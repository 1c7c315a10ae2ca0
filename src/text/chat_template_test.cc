#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const fs::path kGolden = fs::path(OCTAVO_SHARED_DIR) / "golden";
constexpr int64_t kGoldenNow = 1749990896;  // 2025-06-15 12:34:56 UTC

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Json read_gz(const fs::path& path) {
  std::string out;
  const gzFile file = gzopen(path.c_str(), "rb");
  char buffer[1 << 16];
  for (int n; (n = gzread(file, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  gzclose(file);
  return Json::parse(out);
}

struct GoldenCase {
  std::string name;
  fs::path source, golden;
};

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> out;
  for (const auto& entry : fs::directory_iterator(kGolden / "tokenizers"))
    if (fs::exists(entry.path() / "chat_template.jinja"))
      out.push_back({entry.path().filename(), entry.path() / "chat_template.jinja",
                     entry.path() / "chat_golden.json.gz"});
  for (const auto& entry : fs::directory_iterator(kGolden / "chat_templates")) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string stem = entry.path().stem();
    out.push_back({stem, entry.path(), kGolden / "chat_templates" / (stem + ".golden.json.gz")});
  }
  return out;
}

void check_item(const std::string& which, const ChatTemplate& chat, const Json& item) {
  SCOPED_TRACE(which + " " + item["name"].get<std::string>());
  Json kwargs = item["kwargs"];
  RenderOptions options;
  options.now_unix = kGoldenNow;
  options.add_generation_prompt = kwargs.value("add_generation_prompt", false);
  options.continue_final_message = kwargs.value("continue_final_message", false);
  kwargs.erase("add_generation_prompt");
  kwargs.erase("continue_final_message");
  const auto render = [&] { return chat.render(item["messages"], item["tools"], kwargs, options); };
  if (item.contains("error"))
    EXPECT_THROW(render(), Error);
  else
    EXPECT_EQ(render(), item["rendered"].get<std::string>());
}

TEST(ChatTemplate, GoldensOfTransformers) {
  setenv("TZ", "UTC", 1);
  size_t items = 0;
  const auto cases = golden_cases();
  EXPECT_GE(cases.size(), 22u);
  for (const GoldenCase& c : cases) {
    const Json golden = read_gz(c.golden);
    try {
      const ChatTemplate chat(read(c.source), golden["special_tokens"].get<SpecialTokens>());
      for (const Json& item : golden["items"]) {
        ++items;
        check_item(c.name, chat, item);
      }
    } catch (const Error& e) {
      ADD_FAILURE() << c.name << ": " << e.what();
    }
  }
  EXPECT_EQ(items, 37 * cases.size());
}

ChatTemplate golden_template(const std::string& name) {
  const fs::path dir = kGolden / "tokenizers" / name;
  const Json golden = read_gz(dir / "chat_golden.json.gz");
  return ChatTemplate(read(dir / "chat_template.jinja"), golden["special_tokens"].get<SpecialTokens>());
}

std::string render(const ChatTemplate& chat, const Json& messages, const RenderOptions& options = {}) {
  RenderOptions at = options;
  at.now_unix = kGoldenNow;
  return chat.render(normalise_content(messages, chat.content_format()), nullptr, nullptr, at);
}

// BL-05: the template writes BOS itself, once.
TEST(ChatTemplate, OneBos) {
  const std::string prompt =
      render(golden_template("llama3_1"), Json::parse(R"([{"role": "user", "content": "hi"}])"));
  EXPECT_EQ(prompt.find("<|begin_of_text|>"), 0u);
  EXPECT_EQ(prompt.rfind("<|begin_of_text|>"), 0u);
}

TEST(ChatTemplate, ContentFormats) {
  const auto format = [](const fs::path& path) {
    return ChatTemplate(read(kGolden / path)).content_format();
  };
  for (const char* text :
       {"tokenizers/llama3_1", "tokenizers/qwen3", "tokenizers/smollm2", "tokenizers/gptoss"})
    EXPECT_EQ(format(fs::path(text) / "chat_template.jinja"), ContentFormat::kString) << text;
  for (const char* parts : {"tokenizers/gemma3/chat_template.jinja", "tokenizers/qwen3_5/chat_template.jinja",
                            "chat_templates/Mistral-Small-3.2-24B-Instruct-2506.jinja"})
    EXPECT_EQ(format(parts), ContentFormat::kOpenAi) << parts;
  const auto of = [](const char* source) { return ChatTemplate(source).content_format(); };
  EXPECT_EQ(of("{% for m in messages %}{{ m.content }}{% endfor %}"), ContentFormat::kString);
  EXPECT_EQ(of("{% for m in messages[1:] %}{% for c in m['content'] %}{% endfor %}{% endfor %}"),
            ContentFormat::kOpenAi);
  EXPECT_EQ(of("{% set all = messages | list %}{% for m in all %}{% set c = m.content %}{% for p in c %}{% "
               "endfor %}"
               "{% endfor %}"),
            ContentFormat::kOpenAi);
  EXPECT_EQ(
      of("{% macro show(c) %}{% for p in c %}{% endfor %}{% endmacro %}{{ show(messages[0].content) }}"),
      ContentFormat::kOpenAi);
  EXPECT_EQ(of("{% for m in messages %}{% for t in m.tool_calls %}{% endfor %}{% endfor %}"),
            ContentFormat::kString);
}

// BL-08
TEST(ChatTemplate, PartsAndTextsGiveTheSamePrompt) {
  const Json text =
      Json::parse(R"([{"role": "user", "content": "A\nB"}, {"role": "assistant", "content": "ok"},
      {"role": "tool", "content": "21\n22"}, {"role": "user", "content": ""}])");
  const Json parts = Json::parse(R"([
      {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
      {"role": "assistant", "content": [{"type": "text", "text": "ok"}]},
      {"role": "tool", "content": [{"type": "text", "text": "21"}, {"type": "text", "text": "22"}]},
      {"role": "user", "content": []}])");
  for (const char* name : {"llama3_1", "qwen3", "smollm2"}) {
    const ChatTemplate chat = golden_template(name);
    const std::string prompt = render(chat, text);
    EXPECT_EQ(prompt, render(chat, parts)) << name;
    EXPECT_EQ(prompt.find("'type'"), std::string::npos) << name;
    EXPECT_EQ(prompt.find("\"type\""), std::string::npos) << name;
  }
}

TEST(ChatTemplate, NormaliseContent) {
  const auto one = [](const char* message, ContentFormat format) {
    return normalise_content(Json::array({Json::parse(message)}), format)[0].dump();
  };
  using enum ContentFormat;
  EXPECT_EQ(one(R"({"role":"user","content":"a"})", kOpenAi),
            R"({"role":"user","content":[{"type":"text","text":"a"}]})");
  EXPECT_EQ(one(R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}},"b"]})", kOpenAi),
            R"({"role":"user","content":[{"type":"image"},{"type":"text","text":"b"}]})");
  EXPECT_EQ(one(R"({"role":"tool","content":[{"type":"text","text":"a"}]})", kOpenAi),
            R"({"role":"tool","content":"a"})");
  EXPECT_EQ(
      one(R"({"role":"assistant","content":null,"tool_calls":[{"function":{"arguments":"{\"a\": 1}"}}]})",
          kString),
      R"({"role":"assistant","tool_calls":[{"function":{"arguments":{"a":1}}}]})");
  for (const char* bad :
       {R"({"role":"user","content":[{"type":"hologram"}]})",
        R"({"role":"user","content":[{"type":"image_url"}]})", R"({"role":"user","content":[{"text":"a"}]})",
        R"({"role":"user","content":[{"type":"text"}]})", R"({"role":"user","content":5})",
        R"({"role":"user","content":[3]})",
        R"({"role":"assistant","tool_calls":[{"function":{"arguments":"{"}}]})"})
    EXPECT_THROW(one(bad, kString), Error) << bad;
  try {
    one(R"({"role":"user","content":[{"type":"hologram"}]})", kOpenAi);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("'hologram'"), std::string::npos);
  }
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const RenderOptions options{.add_generation_prompt = false, .continue_final_message = true};
  const Json messages =
      Json::parse(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "Roses are "}])");
  EXPECT_EQ(render(ChatTemplate("{% for m in messages %}<{{ m.content }}>{% endfor %}"), messages, options),
            "<q><Roses are ");
  EXPECT_EQ(
      render(ChatTemplate("{% for m in messages %}<{{ m.content|trim }}>{% endfor %}"), messages, options),
      "<q><Roses are");
  EXPECT_THROW(render(ChatTemplate("{{ messages[0].content }}"), messages, options), Error);
  EXPECT_THROW(render(ChatTemplate("x"), Json::array(), options), Error);
}

TEST(ChatTemplate, VariablesAndKwargs) {
  const ChatTemplate chat(
      "{{ bos_token }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ k }}",
      {{"bos_token", "<s>"}});
  EXPECT_EQ(chat.render(Json::array(), nullptr, {{"k", 5}}, {}), "<s>TrueTrueTrue5");
  EXPECT_THROW(chat.render(Json::array(), nullptr, {{"messages", 5}}, {}), Error);
}

TEST(ChatTemplate, LoadsFromCheckpointFiles) {
  const Json one = Json::array(), none = nullptr;
  const char* const kList = R"({"chat_template": [{"name": "default", "template": "d{{ bos_token }}"},
      {"name": "tool_use", "template": "t{{ eos_token }}"}], "bos_token": {"content": "<b>"}, "eos_token": null})";
  ChatTemplateFiles files{.tokenizer_config = kList,
                          .special_tokens_map = R"({"bos_token": "x", "eos_token": "<e>"})"};
  EXPECT_EQ(load_chat_template(files)->render(one, none, none, {}), "d<b>");
  EXPECT_EQ(load_chat_template(files, true)->render(one, none, none, {}), "t<e>");
  files.jinja = "own {{ bos_token }}";
  EXPECT_EQ(load_chat_template(files)->render(one, none, none, {}), "own <b>");
  EXPECT_FALSE(load_chat_template({.tokenizer_config = "{}"}).has_value());
  EXPECT_THROW(load_chat_template({.tokenizer_config = "[1"}), Error);
  EXPECT_THROW(load_chat_template({.tokenizer_config = R"({"chat_template": 5})"}), Error);
  EXPECT_THROW(load_chat_template({.jinja = "{{ a | nope }}"}), TemplateError);
}

}  // namespace
}  // namespace octavo
