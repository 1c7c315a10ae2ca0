#include "server/api/generation.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "frontend/api_error.h"

namespace octavo {
namespace {

/// Events of one advance() stay below: a slow reader holds no more than this and the ids in its TokenStream.
constexpr size_t kMaxPending = 64 << 10;

/// Fields of vLLM or OpenAI that change what is generated and that this server cannot honour yet.
constexpr const char* kUnsupported[] = {"structured_outputs",    "guided_json",
                                        "guided_regex",          "guided_choice",
                                        "guided_grammar",        "prompt_embeds",
                                        "watermarking",          "repetition_detection",
                                        "thinking_token_budget", "logprob_token_ids",
                                        "kv_transfer_params",    "functions",
                                        "function_call",         "audio"};

std::string new_id() {
  thread_local std::mt19937_64 random(std::random_device{}());
  char out[33];
  snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(random()),
           static_cast<unsigned long long>(random()));
  return out;
}

std::string request_id(const HttpRequest& request) {
  std::string_view given = request.header("x-request-id");
  return given.empty() || given.size() > 256 ? new_id() : std::string(given);
}

std::vector<std::pair<int64_t, double>> logit_bias(const Fields& fields) {
  std::vector<std::pair<int64_t, double>> out;
  if (const Json* object = fields.object("logit_bias"))
    for (const auto& [key, value] : object->items()) {
      char* end = nullptr;
      errno = 0;
      long long id = std::strtoll(key.c_str(), &end, 10);
      if (key.empty() || *end || errno || !value.is_number())
        fields.fail("logit_bias", "an object of token ids and numbers");
      out.emplace_back(id, value.get<double>());
    }
  return out;
}

void check_stream_options(const Fields& fields) {
  if (fields.object("stream_options") && !fields.flag("stream", false))
    bad_request("stream_options", "Stream options can only be defined when `stream=True`.");
}

}  // namespace

void check_model(const ServerContext& context, const Fields& fields) {
  auto model = fields.text("model");
  const auto& names = context.options.served_model_names;
  if (!model || model->empty() || std::ranges::find(names, *model) != names.end()) return;
  throw ApiError(404, "NotFoundError",
                 str("The model `", *model, "` does not exist. Served here: ", names[0], "."), "model");
}

void refuse_unsupported(const Fields& fields) {
  for (const char* key : kUnsupported)
    if (fields.has(key)) bad_request(key, str(key, " is not supported by this server."));
  if (fields.flag("use_beam_search", false))
    bad_request("use_beam_search", "Beam search is not supported by this server.");
  if (auto best_of = fields.integer("best_of"); best_of && *best_of > fields.integer("n").value_or(1))
    bad_request("best_of", "best_of is not supported by this server.");
  if (const Json* format = fields.object("response_format")) {
    Fields inner(*format, "response_format.");
    if (inner.text("type").value_or("") != "text")
      bad_request("response_format", "This server supports only response_format {\"type\": \"text\"}.");
  }
}

ReplyShape reply_shape(const ServerContext& context, const HttpRequest& request, const Fields& fields) {
  const ServerOptions& options = context.options;
  ReplyShape out;
  out.id = request_id(request);
  out.model = options.served_model_names[0];
  out.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  out.stream = fields.flag("stream", false);
  check_stream_options(fields);
  if (const Json* given = fields.object("stream_options")) {
    Fields inner(*given, "stream_options.");
    out.include_usage = inner.flag("include_usage", false);
    out.continuous_usage = out.include_usage && inner.flag("continuous_usage_stats", false);
  }
  if (options.enable_force_include_usage) out.include_usage = out.continuous_usage = true;
  out.token_ids_as_text = fields.flag("return_tokens_as_token_ids", options.return_tokens_as_token_ids);
  out.return_token_ids = fields.flag("return_token_ids", false);
  out.cached_details = options.enable_prompt_tokens_details;
  out.interval = fields.integer("stream_interval").value_or(options.stream_interval);
  if (out.interval < 1) fields.fail("stream_interval", "an integer of at least 1");
  return out;
}

void read_generation_fields(const HttpRequest& request, const Fields& fields, GenerateRequest& out) {
  SamplingFields& sampling = out.sampling;
  sampling.temperature = fields.number("temperature");
  sampling.top_p = fields.number("top_p");
  sampling.min_p = fields.number("min_p");
  sampling.top_k = fields.integer("top_k");
  sampling.repetition_penalty = fields.number("repetition_penalty");
  sampling.presence_penalty = fields.number("presence_penalty");
  sampling.frequency_penalty = fields.number("frequency_penalty");
  sampling.n = fields.integer("n").value_or(1);
  sampling.seed = fields.integer("seed");
  sampling.min_tokens = fields.integer("min_tokens");
  sampling.ignore_eos = fields.flag("ignore_eos", false);
  sampling.include_stop_str_in_output = fields.flag("include_stop_str_in_output", false);
  sampling.skip_special_tokens = fields.flag("skip_special_tokens", true);
  sampling.stop = fields.texts("stop");
  sampling.stop_token_ids = fields.integers("stop_token_ids");
  sampling.logit_bias = logit_bias(fields);
  if (fields.has("allowed_token_ids")) sampling.allowed_token_ids = fields.integers("allowed_token_ids");
  sampling.bad_words = fields.texts("bad_words");
  sampling.prompt_logprobs = fields.integer("prompt_logprobs");
  if (sampling.prompt_logprobs && fields.flag("stream", false) && *sampling.prompt_logprobs != 0)
    bad_request("prompt_logprobs", "`prompt_logprobs` are not available when `stream=True`.");
  out.truncate_prompt_tokens = fields.integer("truncate_prompt_tokens");
  std::string side = fields.text("truncation_side").value_or("left");
  if (side != "left" && side != "right") fields.fail("truncation_side", "'left' or 'right'");
  out.truncate_left = side == "left";
  out.priority = fields.integer("priority").value_or(0);
  if (std::string header(request.header("x-vllm-priority")); !header.empty())
    out.priority = std::atoll(header.c_str());
  if (auto salt = fields.text("cache_salt")) {
    if (salt->empty()) bad_request("cache_salt", "cache_salt must be a non-empty string.");
    out.cache_salt = *salt;
  }
}

Json usage_json(const Usage& usage, const ReplyShape& shape) {
  Json out{{"prompt_tokens", usage.prompt_tokens},
           {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
           {"completion_tokens", usage.completion_tokens}};
  if (shape.cached_details) out["prompt_tokens_details"] = {{"cached_tokens", usage.cached_tokens}};
  return out;
}

void append_event(std::string& out, const Json& value) {
  out.append("data: ").append(dump(value)).append("\n\n");
}

GenerationWork::GenerationWork(ServerContext& context, ReplyShape shape,
                               std::vector<std::unique_ptr<Stream>> streams)
    : context_(context), shape_(std::move(shape)), streams_(std::move(streams)) {
  ++context_.load;
  if (context_.options.enable_log_requests)
    spdlog::info("Received request {}: {} prompt tokens, max_tokens {}, n {}", shape_.id,
                 streams_[0]->prompt().size(), streams_[0]->request().sampling.max_tokens, shape_.n);
}

GenerationWork::~GenerationWork() {
  --context_.load;
  if (!ended_ && context_.options.enable_log_requests)
    spdlog::info("Aborted request {}: the client went away", shape_.id);
}

void GenerationWork::set_waker(std::function<void()> wake) {
  for (auto& stream : streams_) stream->set_waker(wake);
}

ReplyWork::State GenerationWork::advance(std::string& out, int& status) {
  if (ended_) return State::kDone;
  TextDelta delta;
  for (size_t idle = 0; idle < streams_.size();) {
    size_t index = turn_++ % streams_.size();
    if (!streams_[index]->next(delta, shape_.stream ? shape_.interval : 1)) {
      ++idle;
      continue;
    }
    idle = 0;
    bool failed = delta.finish == FinishReason::kAbort || delta.finish == FinishReason::kError;
    if (failed) {
      if (delta.finish == FinishReason::kAbort)
        fail(503, "The request was aborted: the server is shutting down.", out, status);
      else
        fail(500, delta.error.empty() ? "Generation failed." : delta.error, out, status);
      return State::kDone;
    }
    on_delta(index, delta, out);
    if (shape_.stream && out.size() > kMaxPending) return State::kMore;
  }
  if (!std::ranges::all_of(streams_, [](const auto& stream) { return stream->done(); }))
    return State::kWaiting;
  ended_ = true;
  on_end(out);
  return State::kDone;
}

void GenerationWork::fail(int status, const std::string& message, std::string& out, int& reply_status) {
  ended_ = true;
  Json body = error_body(status, status == 503 ? "ServiceUnavailableError" : "InternalServerError", message);
  if (shape_.stream) {
    append_event(out, body);
    out += "data: [DONE]\n\n";
    return;
  }
  reply_status = status;
  out = dump(body);
}

Usage GenerationWork::usage() const {
  Usage total;
  for (const auto& stream : streams_) total += stream->usage();
  return total;
}

}  // namespace octavo
