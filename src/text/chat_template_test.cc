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

}  // namespace
}  // namespace octavo
