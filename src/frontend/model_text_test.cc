#include "frontend/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "frontend/api_error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

/// The text side of a golden model whose chat template is `source`.
class ModelTextTest : public ::testing::Test {
 protected:
  std::unique_ptr<Text> load(const std::string& source, const EngineOptions& options = {}) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(OCTAVO_SHARED_DIR "/golden/models/llama-mha-f32") / name, folder_ / name);
    std::ofstream(folder_ / "chat_template.jinja") << source;
    return load_text(folder_.string(), {}, options);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The prompt, or the refusal.
  static std::string render(const Text& text, const std::string& own = "") {
    ChatPrompt chat{.messages = {{{"role", "user"}, {"content", "hi"}}}, .tools = {}, .documents = {}};
    chat.chat_template = own;
    try {
      return text.render(chat);
    } catch (const ApiError& e) {
      EXPECT_EQ(e.status, 400);
      return std::string("refused: ") + e.what();
    }
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "octavo_model_text";
};

// BL-06: what we cannot read is no reason to refuse the model, nor to take another template.
TEST_F(ModelTextTest, AnUnusableTemplateRefusesChatsOnly) {
  for (const char* source : {"{{ messages | no_such_filter }}", "{% if %}", "{{ messages[0].content"}) {
    std::unique_ptr<Text> text = load(source);
    EXPECT_EQ(text->decode(text->encode("one two", false), true), "one two");
    EXPECT_TRUE(text->has_chat_template());  // so that nobody goes on without one
    std::string refusal = render(*text);
    for (const char* part : {"refused: ", "cannot be used", "line 1", "--chat-template"})
      EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    EXPECT_EQ(render(*text, "{{ messages[0].content }}!"), "hi!");  // the request's own
  }
  EXPECT_EQ(render(*load("<{{ messages[0].content }}>")), "<hi>");
}

TEST_F(ModelTextTest, AnUnusableTemplateThatWasAskedForIsAnError) {
  EngineOptions options;
  options.chat_template = "{{ messages | no_such_filter }}";
  EXPECT_THROW(load("{{ messages[0].content }}", options), Error);
  options.chat_template = "{{ messages[0].role }}";
  EXPECT_EQ(render(*load("{% if %}", options)), "user");
}

}  // namespace
}  // namespace octavo
