// Chat messages to a prompt, by the template that a checkpoint brings.
//
// The prompt carries its own special tokens: who tokenizes it must not add any (vLLM's add_special_tokens is
// false for chats), or the sequence begins with two BOS.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/template.h"

namespace octavo {

/// Name ("bos_token", "eos_token", ...) to text: variables of the template.
using SpecialTokens = std::map<std::string, std::string>;

/// How a template reads message.content: as a text, or as a list of parts {type: "text", text: ...}.
enum class ContentFormat { kString, kOpenAi };

struct RenderOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;   // the prompt ends right after the last message's text
  std::optional<int64_t> now_unix = {};  // for strftime_now, seconds since 1970; the clock if absent
};

class ChatTemplate {
 public:
  /// Throws TemplateError (line, column) if the source is not in the language or uses an unknown filter or
  /// test.
  explicit ChatTemplate(std::string source, SpecialTokens special_tokens = {});

  /// `messages` is a list of objects in the template's own content format (see normalise_content), `tools` a
  /// list or null, `kwargs` an object of further variables or null (chat_template_kwargs; documents). Throws
  /// TemplateError, also for what the template refuses by raise_exception; Error for kwargs that would
  /// replace messages, tools or add_generation_prompt, and for a final message that cannot be continued.
  std::string render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
                     const nlohmann::ordered_json& kwargs, const RenderOptions& options) const;

  ContentFormat content_format() const { return content_format_; }
  const std::string& source() const { return source_; }

 private:
  std::string source_;
  SpecialTokens special_tokens_;
  jinja::Template template_;
  ContentFormat content_format_;
};

/// Brings OpenAI messages into the form that a template of this format expects, so that the same conversation
/// gives the same prompt whichever way its texts were sent:
///   kString  parts are joined by "\n"; a part that is not text is an Error that names its type
///   kOpenAi  a text becomes one part; image_url and the like become {type: "image"}, ...; an unknown type is
///   an Error
/// Content of a tool message is always a text. Keys whose value is null are dropped, as transformers does:
/// templates test for presence. Arguments of tool calls, a JSON text in OpenAI's form, become the object that
/// templates read.
nlohmann::ordered_json normalise_content(nlohmann::ordered_json messages, ContentFormat format);

/// What a checkpoint's files say about chat. All arguments are contents of files, empty where there is none.
struct ChatTemplateFiles {
  std::string_view jinja = {};               // chat_template.jinja
  std::string_view tokenizer_config = {};    // tokenizer_config.json
  std::string_view special_tokens_map = {};  // special_tokens_map.json
};

/// Null if the checkpoint has no chat template. Of several named ones "tool_use" is taken if `with_tools`,
/// and "default" otherwise. Throws Error for malformed JSON.
std::optional<ChatTemplate> load_chat_template(const ChatTemplateFiles& files, bool with_tools = false);

/// bos_token and the like of tokenizer_config.json, else special_tokens_map.json; each a text or {content:
/// text}.
SpecialTokens load_special_tokens(const ChatTemplateFiles& files);

}  // namespace octavo
