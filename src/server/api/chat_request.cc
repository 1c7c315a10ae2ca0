#include "server/api/chat_request.h"

#include <algorithm>

#include "frontend/api_error.h"

namespace octavo {
namespace {

constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

void check_part(const Json& part, const std::string& where) {
  if (part.is_string()) return;
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string())
    bad_request(where, where + ": a content part must be an object with a type.");
  std::string type = part["type"].get<std::string>();
  if (type == "text" || type == "input_text" || type == "output_text" || type == "refusal" ||
      type == "thinking") {
    const char* key = type == "refusal" ? "refusal" : type == "thinking" ? "thinking" : "text";
    if (!part.contains(key) || !part[key].is_string())
      bad_request(where, str(where, ": a part of type ", type, " needs the string '", key, "'."));
    return;
  }
  if (type.find("image") != type.npos || type.find("audio") != type.npos || type.find("video") != type.npos)
    bad_request(where, str(where, ": this model does not accept content of type '", type, "'."));
  bad_request(where, str(where, ": unknown content part type."));
}

Json read_message(const Json& given, size_t index) {
  std::string where = "messages." + std::to_string(index);
  if (!given.is_object()) bad_request(where, where + " must be an object.");
  Fields fields(given, where + ".");
  std::string role = fields.text("role").value_or("");
  if (std::ranges::find(kRoles, role) == std::end(kRoles))
    bad_request(where + ".role", "Unexpected message role.");
  Json message = given;
  const Json* content = fields.find("content");
  if (content && content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i)
      check_part((*content)[i], where + ".content." + std::to_string(i));
  } else if (content ? !content->is_string() : role != "assistant") {
    fields.fail("content", "a string or an array of parts");
  }
  if (!content) message["content"] = "";
  if (message.contains("reasoning_content")) {
    if (!message.contains("reasoning")) message["reasoning"] = message["reasoning_content"];
    message.erase("reasoning_content");
  }
  return message;
}

void refuse_tools(const Fields& fields) {
  const Json* tools = fields.array("tools");
  const Json* choice = fields.find("tool_choice");
  if (tools && tools->empty()) bad_request("tools", "tools must not be an empty array.");
  if (choice && !tools && *choice != "none" && *choice != "auto")
    bad_request("tool_choice", "When using `tool_choice`, `tools` must be set.");
  if (tools && (!choice || *choice != "none"))
    bad_request("tool_choice", "Tool calls are not supported by this server: tool_choice must be \"none\".");
}

Json template_kwargs(const ServerContext& context, const Fields& fields) {
  Json out = context.options.default_chat_template_kwargs;
  if (auto effort = fields.text("reasoning_effort")) {
    static constexpr const char* kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    if (std::ranges::find(kEfforts, *effort) == std::end(kEfforts))
      fields.fail("reasoning_effort", "none, minimal, low, medium, high, xhigh or max");
    out["reasoning_effort"] = *effort;
    out["enable_thinking"] = *effort != "none";
  }
  if (const Json* given = fields.object("chat_template_kwargs"))
    for (const auto& [key, value] : given->items()) out[key] = value;
  return out;
}

}  // namespace

ChatPrompt read_chat(const ServerContext& context, const Fields& fields) {
  ChatPrompt out;
  const Json* messages = fields.array("messages");
  if (!messages || messages->empty()) fields.fail("messages", "a non-empty array");
  refuse_tools(fields);
  out.messages = Json::array();
  for (size_t i = 0; i < messages->size(); ++i) out.messages.push_back(read_message((*messages)[i], i));
  if (const Json* tools = fields.array("tools")) out.tools = *tools;
  if (const Json* documents = fields.array("documents")) out.documents = *documents;
  out.template_kwargs = template_kwargs(context, fields);
  out.add_generation_prompt = fields.flag("add_generation_prompt", true);
  out.continue_final_message = fields.flag("continue_final_message", false);
  if (out.continue_final_message && out.add_generation_prompt)
    bad_request("continue_final_message",
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
  if (auto own = fields.text("chat_template"); own && !own->empty()) {
    if (!context.options.trust_request_chat_template)
      bad_request("chat_template",
                  "Chat template is passed with request, but --trust-request-chat-template is not set.");
    out.chat_template = *own;
  }
  return out;
}

}  // namespace octavo
