// A text side for tests: token i is the character ' ' + i (95 of them); 95 is EOS (special), 96 the lone byte
// 0x90.
#pragma once

#include <optional>

#include "frontend/text.h"

namespace octavo {

inline constexpr int32_t kFakeEos = 95, kFakeByte = 96;

class FakeDecoder : public TextDecoder {
 public:
  std::string push(int32_t token) override {
    if (token == kFakeEos) return "";
    return token == kFakeByte ? "\xEF\xBF\xBD" : std::string(1, static_cast<char>(' ' + token));
  }
  std::string finish() override { return ""; }
};

class FakeText : public Text {
 public:
  std::vector<int32_t> encode(std::string_view text, bool) const override {
    std::vector<int32_t> out;
    for (char c : text) out.push_back(c >= ' ' && c < 127 ? c - ' ' : kFakeByte);
    return out;
  }
  std::string decode(const std::vector<int32_t>& ids, bool) const override {
    std::string out;
    for (int32_t id : ids) out += FakeDecoder().push(id);
    return out;
  }
  std::unique_ptr<TextDecoder> decoder(std::span<const int32_t>, bool) const override {
    return std::make_unique<FakeDecoder>();
  }
  std::string token_bytes(int32_t id) const override {
    return id == kFakeByte ? "\x90" : id == kFakeEos ? "</s>" : FakeDecoder().push(id);
  }
  std::string token_spelling(int32_t id) const override { return token_bytes(id); }
  std::optional<int32_t> id_of(std::string_view) const override { return std::nullopt; }
  int64_t vocab() const override { return 97; }
  bool has_chat_template() const override { return true; }
  std::string render(const ChatPrompt& chat) const override {
    std::string out;
    for (const auto& message : chat.messages)
      out += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + ";";
    return out;
  }
};

}  // namespace octavo
