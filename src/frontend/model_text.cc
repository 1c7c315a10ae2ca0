#include "frontend/model_text.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "frontend/api_error.h"
#include "load/gguf.h"
#include "load/json.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

class ModelDecoder : public TextDecoder {
 public:
  ModelDecoder(const Tokenizer& tokenizer, std::span<const int32_t> prompt, bool skip_special)
      : detokenizer_(tokenizer, prompt, skip_special) {}
  std::string push(int32_t token) override { return detokenizer_.push(token); }
  std::string finish() override { return detokenizer_.finish(); }

 private:
  Detokenizer detokenizer_;
};

/// A checkpoint's template, or why it cannot be used: completions work without one.
struct UsableTemplate {
  std::optional<ChatTemplate> found{};
  std::string fault{};
};

template <class Load>
UsableTemplate usable_template(const std::string& origin, const Load& load) {
  try {
    return {load(), {}};
  } catch (const Error& e) {
    spdlog::warn("{}: the chat template cannot be used, chat requests will be refused: {}", origin, e.what());
    return {{}, e.what()};
  }
}

class ModelText : public Text {
 public:
  ModelText(std::unique_ptr<Tokenizer> tokenizer, SpecialTokens special_tokens, UsableTemplate chat_template,
            const std::string& content_format)
      : tokenizer_(std::move(tokenizer)),
        special_tokens_(std::move(special_tokens)),
        template_(std::move(chat_template.found)),
        template_fault_(std::move(chat_template.fault)),
        content_format_(content_format) {}

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const override {
    return tokenizer_->encode(text, add_special_tokens);
  }
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override {
    return tokenizer_->decode(ids, skip_special_tokens);
  }
  std::unique_ptr<TextDecoder> decoder(std::span<const int32_t> prompt,
                                       bool skip_special_tokens) const override {
    return std::make_unique<ModelDecoder>(*tokenizer_, prompt, skip_special_tokens);
  }
  std::string token_bytes(int32_t id) const override {
    bool is_byte;
    return std::string(tokenizer_->piece(id, is_byte));
  }
  std::string token_spelling(int32_t id) const override { return std::string(tokenizer_->token_of(id)); }
  int64_t vocab() const override { return tokenizer_->vocab_size(); }
  std::optional<int32_t> id_of(std::string_view token) const override { return tokenizer_->id_of(token); }
  bool has_chat_template() const override { return template_ || !template_fault_.empty(); }
  std::string render(const ChatPrompt& chat) const override;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  const SpecialTokens special_tokens_;
  const std::optional<ChatTemplate> template_;
  const std::string template_fault_;
  const std::string content_format_;  // --chat-template-content-format
};

std::string ModelText::render(const ChatPrompt& chat) const {
  try {
    std::optional<ChatTemplate> own;
    if (!chat.chat_template.empty()) own.emplace(chat.chat_template, special_tokens_);
    const ChatTemplate* used = own ? &*own : template_ ? &*template_ : nullptr;
    if (!used)
      bad_request("messages", str("This model ",
                                  template_fault_.empty()
                                      ? "has no chat template"
                                      : "has a chat template that cannot be used (" + template_fault_ + ")",
                                  ": give one with --chat-template."));
    ContentFormat format = content_format_ == "auto"     ? used->content_format()
                           : content_format_ == "openai" ? ContentFormat::kOpenAi
                                                         : ContentFormat::kString;
    nlohmann::ordered_json kwargs = chat.template_kwargs;
    if (!chat.documents.is_null()) kwargs["documents"] = chat.documents;
    return used->render(normalise_content(chat.messages, format), chat.tools, kwargs,
                        {.add_generation_prompt = chat.add_generation_prompt,
                         .continue_final_message = chat.continue_final_message,
                         .now_unix = std::nullopt});
  } catch (const Error& e) {  // the template refuses, or the messages do not fit it
    bad_request("messages", e.what());
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path, ": cannot be read");
  std::ostringstream out;
  out << file.rdbuf();
  return std::move(out).str();
}

GgufVocab gguf_vocab(const GgufTokenizer& from, const std::string& origin) {
  return {.origin = origin,
          .model = from.model,
          .pre = from.pre,
          .tokens = from.tokens,
          .scores = from.scores,
          .token_types = from.token_types,
          .merges = from.merges,
          .bos_id = from.bos_id,
          .eos_id = from.eos_id,
          .unk_id = from.unknown_id,
          .pad_id = from.padding_id,
          .add_bos = from.add_bos,
          .add_eos = from.add_eos,
          .add_space_prefix = from.add_space_prefix};
}

/// --chat-template: a file, or the template itself.
std::string template_source(const std::string& argument) {
  if (fs::is_regular_file(argument)) return read_file(argument);
  if (argument.find("{{") == argument.npos && argument.find("{%") == argument.npos)
    throw Error("--chat-template ", argument, ": neither a file nor a template");
  return argument;
}

std::string file_or_empty(const std::string& path) {
  return fs::is_regular_file(path) ? read_file(path) : "";
}

std::unique_ptr<Text> make_text(std::unique_ptr<Tokenizer> tokenizer, SpecialTokens special,
                                UsableTemplate own, const EngineOptions& options) {
  const std::string& format = options.chat_template_content_format;
  if (format != "auto" && format != "string" && format != "openai")
    throw Error("--chat-template-content-format ", format, ": expected auto, string or openai");
  if (!options.chat_template.empty())  // asked for, so a fault in it is an Error
    own.found.emplace(template_source(options.chat_template), special);
  return std::make_unique<ModelText>(std::move(tokenizer), std::move(special), std::move(own), format);
}

}  // namespace

std::unique_ptr<Text> gguf_text(const GgufFile& file, const EngineOptions& options) {
  GgufTokenizer from = gguf_tokenizer(file);
  SpecialTokens special;
  auto add = [&](const char* name, std::optional<int32_t> id) {
    if (id && *id >= 0 && *id < static_cast<int64_t>(from.tokens.size())) special[name] = from.tokens[*id];
  };
  add("bos_token", from.bos_id);
  add("eos_token", from.eos_id);
  add("unk_token", from.unknown_id);
  add("pad_token", from.padding_id);
  UsableTemplate own;
  if (from.chat_template && options.chat_template.empty())
    own = usable_template(file.origin(), [&] {
      return std::optional<ChatTemplate>(std::in_place, *from.chat_template, special);
    });
  return make_text(Tokenizer::from_vocab(gguf_vocab(from, file.origin())), std::move(special), std::move(own),
                   options);
}

std::unique_ptr<Text> load_text(const std::string& path, const ModelConfig&, const EngineOptions& options) {
  std::string source = options.tokenizer.empty() ? path : options.tokenizer;
  if (source.ends_with(".gguf")) return gguf_text(GgufFile(source), options);
  std::string folder = fs::is_directory(source) ? source : fs::path(source).parent_path().string();
  std::string file = fs::is_directory(source) ? source + "/tokenizer.json" : source;
  std::string jinja = file_or_empty(folder + "/chat_template.jinja"),
              config = file_or_empty(folder + "/tokenizer_config.json"),
              map = file_or_empty(folder + "/special_tokens_map.json");
  ChatTemplateFiles files{jinja, config, map};
  UsableTemplate own;
  if (options.chat_template.empty()) own = usable_template(folder, [&] { return load_chat_template(files); });
  return make_text(Tokenizer::from_json(read_file(file), file), load_special_tokens(files), std::move(own),
                   options);
}

}  // namespace octavo
