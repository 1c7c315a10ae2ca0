// POST /v1/chat/completions (surface document, sections 3.3, 3.6, 3.7).
#include "frontend/api_error.h"
#include "server/api/chat_request.h"
#include "server/api/logprobs.h"

namespace octavo {
namespace {

struct ChatShape {
  std::string role, echo;
  bool logprobs = false;
  int64_t top_logprobs = 0;
};

class ChatWork : public GenerationWork {
 public:
  ChatWork(ServerContext& context, ReplyShape shape, ChatShape chat,
           std::vector<std::unique_ptr<Stream>> streams)
      : GenerationWork(context, std::move(shape), std::move(streams)),
        chat_(std::move(chat)),
        choices_(choices()) {
    for (Choice& choice : choices_) choice.content = chat_.echo;
  }

 protected:
  void on_delta(size_t, const TextDelta& delta, std::string& out) override {
    if (shape_.stream) {
      if (!started_) send_roles(out);
      send_chunk(delta, out);
      return;
    }
    Choice& choice = choices_[delta.index];
    choice.content += delta.text;
    choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    add_logprobs(delta, choice.logprobs);
    if (delta.finish == FinishReason::kNone) return;
    choice.finish_reason = name(delta.finish);
    choice.stop_reason = stop_reason(delta);
  }

  void on_end(std::string& out) override {
    if (!shape_.stream) return whole(out);
    if (shape_.include_usage) {
      Json chunk = envelope(Json::array());
      chunk["usage"] = usage_json(usage(), shape_);
      append_event(out, chunk);
    }
    out += "data: [DONE]\n\n";
  }

 private:
  struct Choice {
    std::string content;
    std::vector<int32_t> tokens;
    Json logprobs = Json::array(), finish_reason, stop_reason;
    int64_t count = 0;
  };

  static Json stop_reason(const TextDelta& delta) {
    if (!delta.stop_string.empty()) return delta.stop_string;
    return delta.stop_token >= 0 ? Json(delta.stop_token) : Json(nullptr);
  }

  void add_logprobs(const TextDelta& delta, Json& list) const {
    if (chat_.logprobs)
      for (TokenLogprobs entries : delta.logprobs)
        list.push_back(
            chat_logprob(context_.frontend.text(), entries, chat_.top_logprobs, shape_.token_ids_as_text));
  }

  Json envelope(Json list) const {
    Json chunk{{"id", "chatcmpl-" + shape_.id},
               {"object", "chat.completion.chunk"},
               {"created", shape_.created},
               {"model", shape_.model},
               {"choices", std::move(list)}};
    if (shape_.include_usage) chunk["usage"] = nullptr;
    return chunk;
  }

  void add_continuous_usage(Json& chunk, int64_t completion) const {
    if (!shape_.continuous_usage) return;
    chunk["usage"] = usage_json({.prompt_tokens = static_cast<int64_t>(streams_[0]->prompt().size()),
                                 .completion_tokens = completion},
                                shape_);
  }

  /// Before the first text, every choice says whose turn it is.
  void send_roles(std::string& out) {
    started_ = true;
    for (size_t i = 0; i < choices_.size(); ++i) {
      Json choice{{"index", i},
                  {"delta", {{"role", chat_.role}, {"content", chat_.echo}}},
                  {"logprobs", nullptr},
                  {"finish_reason", nullptr}};
      Json chunk = envelope(Json::array({std::move(choice)}));
      if (shape_.return_token_ids) chunk["prompt_token_ids"] = streams_[0]->prompt();
      add_continuous_usage(chunk, 0);
      append_event(out, chunk);
    }
  }

  void send_chunk(const TextDelta& delta, std::string& out) {
    Choice& state = choices_[delta.index];
    state.count += static_cast<int64_t>(delta.tokens.size());
    Json logprobs;
    if (chat_.logprobs) {
      Json content = Json::array();
      add_logprobs(delta, content);
      logprobs = {{"content", std::move(content)}};
    }
    Json choice{{"index", delta.index},
                {"delta", {{"content", delta.text}}},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", nullptr}};
    if (delta.finish != FinishReason::kNone) {
      choice["finish_reason"] = name(delta.finish);
      choice["stop_reason"] = stop_reason(delta);
    }
    if (shape_.return_token_ids) choice["token_ids"] = delta.tokens;
    Json chunk = envelope(Json::array({std::move(choice)}));
    add_continuous_usage(chunk, state.count);
    append_event(out, chunk);
  }

  void whole(std::string& out) {
    Json list = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json message{{"role", chat_.role},
                   {"content", std::move(choice.content)},
                   {"refusal", nullptr},
                   {"annotations", nullptr},
                   {"audio", nullptr},
                   {"function_call", nullptr},
                   {"tool_calls", Json::array()},
                   {"reasoning", nullptr}};
      list.push_back(
          {{"index", i},
           {"message", std::move(message)},
           {"logprobs", chat_.logprobs ? Json{{"content", std::move(choice.logprobs)}} : Json(nullptr)},
           {"finish_reason", choice.finish_reason},
           {"stop_reason", choice.stop_reason},
           {"token_ids", shape_.return_token_ids ? Json(choice.tokens) : Json(nullptr)}});
    }
    const Stream& stream = *streams_[0];
    Json body{{"id", "chatcmpl-" + shape_.id},
              {"object", "chat.completion"},
              {"created", shape_.created},
              {"model", shape_.model},
              {"choices", std::move(list)},
              {"service_tier", nullptr},
              {"system_fingerprint", nullptr},
              {"usage", usage_json(usage(), shape_)},
              {"prompt_logprobs", prompt_logprobs_json(context_.frontend.text(), stream)},
              {"prompt_token_ids", shape_.return_token_ids ? Json(stream.prompt()) : Json(nullptr)},
              {"kv_transfer_params", nullptr}};
    out += dump(body);
  }

  const ChatShape chat_;
  std::vector<Choice> choices_;
  bool started_ = false;
};

void read_logprobs(const Fields& fields, ChatShape& chat, SamplingFields& sampling) {
  chat.logprobs = fields.flag("logprobs", false);
  auto top = fields.integer("top_logprobs");
  if (top && *top < 0 && *top != -1)
    bad_request("top_logprobs", "`top_logprobs` must be a positive value or -1.");
  if (top && *top != 0 && !chat.logprobs)
    bad_request("top_logprobs", "when using `top_logprobs`, `logprobs` must be set to true.");
  if (!chat.logprobs) return;
  sampling.logprobs = top.value_or(0);
  chat.top_logprobs = *sampling.logprobs < 0 ? INT32_MAX : *sampling.logprobs;
}

/// With `echo`, a last message of the replying role opens the reply.
std::string echoed(const ChatPrompt& chat, const std::string& role, bool echo) {
  const Json& last = chat.messages.back();
  return echo && last["role"] == role && last["content"].is_string() ? last["content"].get<std::string>()
                                                                     : "";
}

}  // namespace

Reply chat_completions(ServerContext& context, const HttpRequest& request) {
  Json body = parse_body(request);
  Fields fields(body);
  check_model(context, fields);
  refuse_unsupported(fields);
  for (const std::string& modality : fields.texts("modalities"))
    if (modality != "text") bad_request("modalities", "This model's output is text only.");
  GenerateRequest generate;
  ChatShape chat;
  ReplyShape shape = reply_shape(context, request, fields);
  read_generation_fields(request, fields, generate);
  ChatPrompt prompt = read_chat(context, fields);
  chat.role = prompt.add_generation_prompt ? context.options.response_role
                                           : prompt.messages.back()["role"].get<std::string>();
  chat.echo = echoed(prompt, chat.role, fields.flag("echo", false));
  generate.prompt = std::move(prompt);
  auto limit = fields.integer("max_completion_tokens");
  generate.sampling.max_tokens = limit ? limit : fields.integer("max_tokens");
  read_logprobs(fields, chat, generate.sampling);
  generate.add_special_tokens = fields.flag("add_special_tokens", false);
  generate.request_id = shape.id;
  shape.n = generate.sampling.n;

  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(context.frontend.submit(generate));
  Reply reply;
  reply.event_stream = shape.stream;
  if (shape.stream) reply.content_type = "text/event-stream; charset=utf-8";
  reply.work = std::make_unique<ChatWork>(context, std::move(shape), std::move(chat), std::move(streams));
  return reply;
}

}  // namespace octavo
