// POST /v1/completions (surface document, sections 3.2, 3.6, 3.7).
#include "frontend/api_error.h"
#include "server/api/logprobs.h"

namespace octavo {
namespace {

constexpr size_t kMaxPrompts = 1024;  // VLLM_MAX_COMPLETION_PROMPTS

std::vector<int32_t> token_ids(const Json& list, const Fields& fields) {
  std::vector<int32_t> out;
  for (const Json& item : list) {
    auto id = as_integer(item);
    if (!id || *id < 0 || *id > INT32_MAX) fields.fail("prompt", "token ids");
    out.push_back(static_cast<int32_t>(*id));
  }
  return out;
}

std::vector<PromptInput> read_prompts(const Fields& fields) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) fields.fail("prompt", "a string or token ids");
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array() || prompt->empty())
    fields.fail("prompt", "a string, strings, token ids or lists of token ids");
  if (prompt->front().is_number()) return {token_ids(*prompt, fields)};
  if (prompt->size() > kMaxPrompts)
    bad_request("prompt", str("At most ", kMaxPrompts, " prompts are allowed, got ", prompt->size(), "."));
  std::vector<PromptInput> out;
  for (const Json& item : *prompt) {
    if (item.is_string())
      out.emplace_back(item.get<std::string>());
    else if (item.is_array())
      out.emplace_back(token_ids(item, fields));
    else
      fields.fail("prompt", "a string, strings, token ids or lists of token ids");
  }
  return out;
}

Json stop_reason(const TextDelta& delta) {
  if (!delta.stop_string.empty()) return delta.stop_string;
  return delta.stop_token >= 0 ? Json(delta.stop_token) : Json(nullptr);
}

class CompletionWork : public GenerationWork {
 public:
  CompletionWork(ServerContext& context, ReplyShape shape, std::vector<std::unique_ptr<Stream>> streams,
                 std::vector<std::string> echoes)
      : GenerationWork(context, std::move(shape), std::move(streams)),
        echoes_(std::move(echoes)),
        choices_(choices()) {
    for (size_t i = 0; i < choices_.size(); ++i) {
      const SamplingFields& fields = streams_[i / shape_.n]->request().fields;
      if (fields.logprobs)
        choices_[i].logprobs.emplace(context_.frontend.text(),
                                     *fields.logprobs < 0 ? INT32_MAX : *fields.logprobs,
                                     shape_.token_ids_as_text);
    }
  }

 protected:
  struct Choice {  // NOLINT(bugprone-exception-escape): Json is nlohmann's ordered one, whose move is not
                   // noexcept
    bool started = false;
    std::string text;
    std::vector<int32_t> tokens;
    std::optional<CompletionLogprobs> logprobs;
    Json finish_reason, stop_reason_value;
    int64_t count = 0;
  };

  void on_delta(size_t stream, const TextDelta& delta, std::string& out) override {
    Choice& state = choices_[choice(stream, delta)];
    if (!state.started) start(stream, state);
    state.text += delta.text;
    state.count += static_cast<int64_t>(delta.tokens.size());
    state.tokens.insert(state.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    if (state.logprobs)
      for (size_t i = 0; i < delta.tokens.size(); ++i)
        state.logprobs->add(delta.tokens[i], delta.logprobs[i]);
    if (delta.finish != FinishReason::kNone) {
      state.finish_reason = name(delta.finish);
      state.stop_reason_value = stop_reason(delta);
    }
    if (shape_.stream) send_chunk(stream, choice(stream, delta), out);
  }

  void on_end(std::string& out) override {
    if (!shape_.stream) {
      Json list = Json::array();
      for (size_t i = 0; i < choices_.size(); ++i) list.push_back(whole_choice(i));
      Json body{{"id", "cmpl-" + shape_.id},     {"object", "text_completion"},
                {"created", shape_.created},     {"model", shape_.model},
                {"choices", std::move(list)},    {"service_tier", nullptr},
                {"system_fingerprint", nullptr}, {"usage", usage_json(usage(), shape_)},
                {"kv_transfer_params", nullptr}};
      out += dump(body);
      return;
    }
    if (shape_.include_usage) {
      Json chunk = envelope(Json::array());
      chunk["usage"] = usage_json(usage(), shape_);
      append_event(out, chunk);
    }
    out += "data: [DONE]\n\n";
  }

 private:
  /// Before the first token: with echo, the prompt comes first.
  void start(size_t stream, Choice& state) {
    state.started = true;
    if (echoes_.empty()) return;
    state.text = echoes_[stream];
    if (!state.logprobs) return;
    const std::vector<int32_t>& prompt = streams_[stream]->prompt();
    for (size_t i = 0; i < prompt.size(); ++i)
      state.logprobs->add(prompt[i], streams_[stream]->prompt_logprobs(static_cast<int64_t>(i)));
  }

  Json envelope(Json list) const {
    Json chunk{{"id", "cmpl-" + shape_.id},
               {"object", "text_completion"},
               {"created", shape_.created},
               {"model", shape_.model},
               {"choices", std::move(list)}};
    if (shape_.include_usage) chunk["usage"] = nullptr;
    return chunk;
  }

  void send_chunk(size_t stream, size_t index, std::string& out) {
    Choice& state = choices_[index];
    Json body{{"index", index},
              {"text", std::move(state.text)},
              {"logprobs", state.logprobs ? state.logprobs->take() : Json(nullptr)},
              {"finish_reason", state.finish_reason},
              {"stop_reason", state.stop_reason_value}};
    if (shape_.return_token_ids) {
      bool first = state.count == static_cast<int64_t>(state.tokens.size());
      body["prompt_token_ids"] = first ? Json(streams_[stream]->prompt()) : Json(nullptr);
      body["token_ids"] = state.tokens;
    }
    state.text.clear();
    state.tokens.clear();
    Json chunk = envelope(Json::array({std::move(body)}));
    if (shape_.continuous_usage)
      chunk["usage"] = usage_json({.prompt_tokens = static_cast<int64_t>(streams_[stream]->prompt().size()),
                                   .completion_tokens = state.count},
                                  shape_);
    append_event(out, chunk);
  }

  Json whole_choice(size_t index) {
    Choice& state = choices_[index];
    const Stream& stream = *streams_[index / shape_.n];
    return {{"index", index},
            {"text", std::move(state.text)},
            {"logprobs", state.logprobs ? state.logprobs->take() : Json(nullptr)},
            {"finish_reason", state.finish_reason},
            {"stop_reason", state.stop_reason_value},
            {"token_ids", shape_.return_token_ids ? Json(state.tokens) : Json(nullptr)},
            {"prompt_logprobs", prompt_logprobs_json(context_.frontend.text(), stream)},
            {"prompt_token_ids", shape_.return_token_ids ? Json(stream.prompt()) : Json(nullptr)}};
  }

  const std::vector<std::string> echoes_;  // per stream; empty: no echo
  std::vector<Choice> choices_;
};

}  // namespace

Reply completions(ServerContext& context, const HttpRequest& request) {
  Json body = parse_body(request);
  Fields fields(body);
  check_model(context, fields);
  refuse_unsupported(fields);
  if (!fields.text("suffix").value_or("").empty())
    bad_request("suffix", "suffix is not supported by this model.");
  GenerateRequest base;
  ReplyShape shape = reply_shape(context, request, fields);
  read_generation_fields(request, fields, base);
  base.sampling.max_tokens = fields.integer("max_tokens");
  base.sampling.logprobs = fields.integer("logprobs");
  base.add_special_tokens = fields.flag("add_special_tokens", true);
  base.echo = fields.flag("echo", false);
  base.request_id = shape.id;
  shape.n = base.sampling.n;

  std::vector<Prepared> prepared;
  std::vector<std::string> echoes;
  for (PromptInput& prompt : read_prompts(fields)) {
    base.prompt = std::move(prompt);
    prepared.push_back(context.frontend.prepare(base));
    if (!base.echo) continue;
    auto* text = std::get_if<std::string>(&base.prompt);
    echoes.push_back(
        text ? *text
             : context.frontend.text().decode(prepared.back().prompt, base.sampling.skip_special_tokens));
  }
  if (static_cast<int64_t>(prepared.size()) * shape.n > kMaxSequences)
    bad_request("n", "Too many sequences in one request.");
  std::vector<std::unique_ptr<Stream>> streams;
  streams.reserve(prepared.size());
  for (Prepared& one : prepared) streams.push_back(context.frontend.submit(std::move(one)));

  Reply reply;
  reply.event_stream = shape.stream;
  if (shape.stream) reply.content_type = "text/event-stream; charset=utf-8";
  reply.work =
      std::make_unique<CompletionWork>(context, std::move(shape), std::move(streams), std::move(echoes));
  return reply;
}

}  // namespace octavo
