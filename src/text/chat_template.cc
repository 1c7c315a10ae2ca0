#include "text/chat_template.h"

#include <algorithm>

#include "text/template/content_format.h"
#include "text/template/unicode.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

// Appended to the final message's text to find its end again in the prompt, as transformers does it (the
// trailing space shows whether the template trims).
constexpr std::string_view kTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kTagTrimmed = kTag.substr(0, kTag.size() - 1);

constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

/// Reasoning of earlier turns has several names among templates: fill reasoning_content from the others, and
/// thinking, which gpt-oss reads.
void alias_reasoning(Json& message) {
  for (const char* field : kReasoningFields) {
    const auto found = message.find(field);
    if (found == message.end() || found->is_null()) continue;
    const Json reasoning = *found;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    message["reasoning_content"] = reasoning;
    return;
  }
}

/// The text of the final message, which gets the tag.
std::string tag_final_text(Json& messages) {
  if (messages.empty()) throw Error("continue_final_message is set but there are no messages");
  Json& message = messages.back();
  const auto content = message.find("content");
  Json* text = nullptr;
  if (content != message.end() && content->is_string()) text = &*content;
  if (content != message.end() && content->is_array()) {
    for (Json& part : *content)
      if (part.is_object() && part.contains("text") && part["text"].is_string()) text = &part["text"];
  }
  if (!text) throw Error("continue_final_message is set but the final message has no text to continue");
  std::string before = text->get<std::string>();
  *text = before + std::string(kTag);
  return before;
}

std::string cut_after_final_text(std::string prompt, const std::string& text) {
  const size_t tag = prompt.rfind(kTagTrimmed);
  if (tag == std::string::npos || prompt.find(jinja::strip(text, true, true)) == std::string::npos)
    throw Error(
        "continue_final_message is set but the chat template does not print the final message's text");
  const bool spacing_kept = prompt.compare(tag, kTag.size(), kTag) == 0;
  prompt.resize(tag);
  return spacing_kept ? prompt : std::string(jinja::strip(prompt, false, true));
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, SpecialTokens special_tokens)
    : source_(std::move(source)),
      special_tokens_(std::move(special_tokens)),
      template_(source_),
      content_format_(jinja::loops_over_content(template_.ast()) ? ContentFormat::kOpenAi
                                                                 : ContentFormat::kString) {}

std::string ChatTemplate::render(const Json& messages, const Json& tools, const Json& kwargs,
                                 const RenderOptions& options) const {
  if (!messages.is_array()) throw Error("messages must be a list");
  Json context = {{"documents", nullptr}};
  for (const auto& [name, text] : special_tokens_) context[name] = text;
  if (!kwargs.is_null() && !kwargs.is_object()) throw Error("chat_template_kwargs must be an object");
  for (const auto& [name, value] : kwargs.items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt")
      throw Error("chat_template_kwargs must not contain '", name, "'");
    context[name] = value;
  }
  Json chat = messages;
  for (Json& message : chat) {
    if (!message.is_object()) throw Error("each message must be an object");
    alias_reasoning(message);
  }
  std::string final_text;
  if (options.continue_final_message) final_text = tag_final_text(chat);
  context["messages"] = std::move(chat);
  context["tools"] = tools;
  context["add_generation_prompt"] = options.add_generation_prompt;
  std::string prompt = template_.render(context, options.now_unix);
  return options.continue_final_message ? cut_after_final_text(std::move(prompt), final_text) : prompt;
}

namespace {

/// Types of content parts: the key that holds a text, or the kind of media that templates know it as.
struct PartType {
  std::string_view type, text_key, media;
};
constexpr PartType kPartTypes[] = {
    {"text", "text", ""},       {"input_text", "text", ""},   {"output_text", "text", ""},
    {"refusal", "refusal", ""}, {"thinking", "thinking", ""}, {"image", "", "image"},
    {"image_url", "", "image"}, {"input_image", "", "image"}, {"audio", "", "audio"},
    {"audio_url", "", "audio"}, {"input_audio", "", "audio"}, {"video", "", "video"},
    {"video_url", "", "video"},
};

const PartType& part_type(const Json& part) {
  static constexpr PartType kPlainText{"text", "", ""};
  if (part.is_string()) return kPlainText;
  if (!part.is_object()) throw Error("a content part must be an object");
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) throw Error("a content part has no type");
  const auto& name = type->get_ref<const std::string&>();
  const auto row = std::find_if(std::begin(kPartTypes), std::end(kPartTypes),
                                [&](const PartType& t) { return t.type == name; });
  if (row == std::end(kPartTypes)) throw Error("unknown content part type '", name, "'");
  return *row;
}

std::string part_text(const Json& part, const PartType& type) {
  if (part.is_string()) return part.get<std::string>();
  const auto text = part.find(std::string(type.text_key));
  if (text == part.end() || !text->is_string())
    throw Error("a content part of type '", type.type, "' has no '", type.text_key, "'");
  return text->get<std::string>();
}

Json joined(const Json& parts) {
  std::string out;
  for (const Json& part : parts) {
    const PartType& type = part_type(part);
    if (!type.media.empty())
      throw Error("the chat template of this model takes no content part of type '", type.type, "'");
    if (&part != &parts.front()) out += '\n';
    out += part_text(part, type);
  }
  return out;
}

Json as_parts(const Json& content) {
  if (content.is_string()) return Json::array({{{"type", "text"}, {"text", content}}});
  Json out = Json::array();
  for (const Json& part : content) {
    const PartType& type = part_type(part);
    out.push_back(type.media.empty() ? Json{{"type", "text"}, {"text", part_text(part, type)}}
                                     : Json{{"type", std::string(type.media)}});
  }
  return out;
}

void parse_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (!calls->is_array()) throw Error("tool_calls must be a list");
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    const auto& text = arguments->get_ref<const std::string&>();
    Json parsed = text.empty() ? Json::object() : Json::parse(text, nullptr, false);
    if (parsed.is_discarded()) throw Error("the arguments of a tool call are not valid JSON");
    *arguments = std::move(parsed);
  }
}

Json without_nulls(const Json& message) {
  Json out = Json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) out[key] = value;
  return out;
}

}  // namespace

Json normalise_content(Json messages, ContentFormat format) {
  if (!messages.is_array()) throw Error("messages must be a list");
  for (Json& message : messages) {
    if (!message.is_object()) throw Error("each message must be an object");
    message = without_nulls(message);
    parse_arguments(message);
    const auto content = message.find("content");
    if (content == message.end()) continue;
    if (!content->is_string() && !content->is_array())
      throw Error("content must be a string or a list of parts");
    const auto role = message.find("role");
    const bool tool =
        role != message.end() && role->is_string() && role->get_ref<const std::string&>() == "tool";
    if (format == ContentFormat::kOpenAi && !tool)
      *content = as_parts(*content);
    else if (content->is_array())
      *content = joined(*content);
  }
  return messages;
}

namespace {

Json parse_file(std::string_view text, const char* name) {
  if (text.empty()) return Json::object();
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) throw Error(name, " is not a JSON object");
  return json;
}

/// "chat_template" of tokenizer_config.json: a text, or a list of {name, template}.
std::string pick_template(const Json& entry, bool with_tools) {
  if (entry.is_string()) return entry.get<std::string>();
  if (!entry.is_array()) throw Error("tokenizer_config.json: chat_template must be a string or a list");
  SpecialTokens named;
  for (const Json& one : entry) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string() || !one.contains("template") ||
        !one["template"].is_string())
      throw Error("tokenizer_config.json: an entry of chat_template must have a name and a template");
    named[one["name"].get<std::string>()] = one["template"].get<std::string>();
  }
  if (with_tools && named.count("tool_use")) return named["tool_use"];
  if (!named.count("default"))
    throw Error("tokenizer_config.json: chat_template has no entry named 'default'");
  return named["default"];
}

void add_tokens(const Json& from, SpecialTokens& out) {
  for (const auto& [name, value] : from.items()) {
    if (!std::string_view(name).ends_with("_token")) continue;
    const bool object = value.is_object() && value.contains("content");
    const Json& text = object ? value["content"] : value;
    if (text.is_string()) out.emplace(name, text.get<std::string>());
  }
}

}  // namespace

SpecialTokens load_special_tokens(const ChatTemplateFiles& files) {
  SpecialTokens out;
  add_tokens(parse_file(files.tokenizer_config, "tokenizer_config.json"), out);
  add_tokens(parse_file(files.special_tokens_map, "special_tokens_map.json"), out);
  return out;
}

std::optional<ChatTemplate> load_chat_template(const ChatTemplateFiles& files, bool with_tools) {
  std::string source(files.jinja);
  if (source.empty()) {
    const Json config = parse_file(files.tokenizer_config, "tokenizer_config.json");
    const auto entry = config.find("chat_template");
    if (entry == config.end() || entry->is_null()) return std::nullopt;
    source = pick_template(*entry, with_tools);
  }
  return ChatTemplate(std::move(source), load_special_tokens(files));
}

}  // namespace octavo
