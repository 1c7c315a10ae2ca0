#include "frontend/sampling.h"

#include <algorithm>
#include <cmath>

#include "frontend/api_error.h"

namespace octavo {
namespace {

void check(bool ok, const char* param, const std::string& expected, double value) {
  if (!ok || std::isnan(value))
    bad_request(param, str(param, " must be ", expected, ", got ", value, ". (parameter=", param,
                           ", value=", value, ")"));
}

void check_integer(bool ok, const char* param, const std::string& expected, int64_t value) {
  if (!ok)
    bad_request(param, str(param, " must be ", expected, ", got ", value, ". (parameter=", param,
                           ", value=", value, ")"));
}

void check_token_ids(const std::vector<int64_t>& ids, int64_t vocab, const char* param) {
  for (int64_t id : ids)
    check_integer(id >= 0 && id < vocab, param, str("token ids of the vocabulary (0 to ", vocab - 1, ")"),
                  id);
}

double checked(std::optional<double> value, double low, double high, const char* param, double fallback) {
  if (!value) return fallback;
  check(*value >= low && *value <= high, param, str("in [", low, ", ", high, "]"), *value);
  return *value;
}

/// Wanted number of log-probabilities; -1 asks for the whole vocabulary.
int32_t checked_logprobs(std::optional<int64_t> wanted, const SamplingLimits& limits, const char* param) {
  if (!wanted) return -1;
  check_integer(*wanted >= -1, param, "non-negative or -1", *wanted);
  int64_t count = *wanted == -1 ? limits.vocab : *wanted;
  if (limits.max_logprobs >= 0 && count > limits.max_logprobs)
    bad_request(param, str("Requested ", param, " of ", count, ", which is greater than max allowed: ",
                           limits.max_logprobs, ". (parameter=", param, ", value=", *wanted, ")"));
  return static_cast<int32_t>(std::min(count, limits.vocab));
}

/// The engine reserves these entries when a request enters (vLLM keeps lists that grow): the whole vocabulary
/// for every token of a long context would be hundreds of GB.
void check_logprob_memory(const SamplingParams& params, int64_t n, int64_t prompt_tokens) {
  double entries =
      static_cast<double>(n) * (static_cast<double>(params.max_tokens) * (params.logprobs + 1) +
                                static_cast<double>(prompt_tokens) * (params.prompt_logprobs + 1));
  double bytes = entries * sizeof(TokenLogprob);
  if (bytes > static_cast<double>(kMaxLogprobBytes))
    bad_request(
        params.logprobs >= params.prompt_logprobs ? "logprobs" : "prompt_logprobs",
        str("The log-probabilities of this request would take ", bytes / (1 << 30), " GiB, at most ",
            kMaxLogprobBytes >> 30, " are allowed: ask for fewer logprobs, or for a lower max_tokens."));
}

int64_t resolve_max_tokens(const SamplingFields& fields, const SamplingDefaults& defaults,
                           const SamplingLimits& limits) {
  int64_t room = limits.max_model_len - limits.prompt_tokens;
  if (!fields.max_tokens) {
    int64_t wanted = limits.chat ? room : 16;
    if (limits.chat && defaults.max_new_tokens) wanted = std::min(wanted, *defaults.max_new_tokens);
    return std::min(wanted, room);
  }
  int64_t wanted = *fields.max_tokens;
  check_integer(wanted >= (limits.echo ? 0 : 1), "max_tokens", "at least 1", wanted);
  if (wanted > limits.max_model_len)
    bad_request("max_tokens",
                str("max_tokens=", wanted, " is greater than the model's maximum context length of ",
                    limits.max_model_len, " tokens. This model's maximum context length is ",
                    limits.max_model_len, " tokens. (parameter=max_tokens, value=", wanted, ")"));
  return std::min(wanted, room);
}

/// Each id once: the engine walks these lists at every token, so their length is bounded by the vocabulary.
void append_unique(const std::vector<int64_t>& ids, std::vector<int32_t>& out) {
  for (int64_t id : ids) out.push_back(static_cast<int32_t>(id));
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

void resolve_stops(const SamplingFields& fields, int64_t vocab, SamplingParams& out) {
  if (fields.stop.size() > kMaxStopStrings)
    bad_request("stop",
                str("At most ", kMaxStopStrings, " stop strings are allowed, got ", fields.stop.size(), "."));
  for (const std::string& stop : fields.stop)
    if (stop.empty()) bad_request("stop", "stop cannot contain an empty string.");
  check_token_ids(fields.stop_token_ids, vocab, "stop_token_ids");
  append_unique(fields.stop_token_ids, out.stop_token_ids);
}

void resolve_masks(const SamplingFields& fields, int64_t vocab, SamplingParams& out) {
  for (auto [id, bias] : fields.logit_bias) {
    check_integer(id >= 0 && id < vocab, "logit_bias", "keyed by token ids of the vocabulary", id);
    out.logit_bias.emplace_back(static_cast<int32_t>(id),
                                static_cast<float>(std::clamp(bias, -100.0, 100.0)));
  }
  if (fields.allowed_token_ids) {
    if (fields.allowed_token_ids->empty())
      bad_request("allowed_token_ids", "allowed_token_ids must not be empty.");
    check_token_ids(*fields.allowed_token_ids, vocab, "allowed_token_ids");
    append_unique(*fields.allowed_token_ids, out.allowed_token_ids);
  }
}

void resolve_distribution(const SamplingFields& fields, const SamplingDefaults& defaults,
                          SamplingParams& out) {
  double temperature =
      checked(fields.temperature ? fields.temperature : defaults.temperature, 0, 2, "temperature", 1);
  if (temperature > 0 && temperature < 0.01) temperature = 0.01;
  std::optional<double> top_p = fields.top_p ? fields.top_p : defaults.top_p;
  if (top_p) check(*top_p > 0 && *top_p <= 1, "top_p", "in (0, 1]", *top_p);
  std::optional<int64_t> top_k = fields.top_k ? fields.top_k : defaults.top_k;
  if (top_k)
    check_integer(*top_k >= -1 && *top_k <= INT32_MAX, "top_k", "0 or -1 (off), or at least 1", *top_k);
  out.temperature = static_cast<float>(temperature);
  out.top_p = static_cast<float>(top_p.value_or(1));
  out.top_k = static_cast<int32_t>(std::max<int64_t>(top_k.value_or(0), 0));
  out.min_p = static_cast<float>(checked(fields.min_p ? fields.min_p : defaults.min_p, 0, 1, "min_p", 0));
  std::optional<double> repetition =
      fields.repetition_penalty ? fields.repetition_penalty : defaults.repetition_penalty;
  if (repetition)
    check(*repetition >= 1e-6 && *repetition <= 1e6, "repetition_penalty", "greater than zero (1e-6 to 1e6)",
          *repetition);
  out.repetition_penalty = static_cast<float>(repetition.value_or(1));
  out.presence_penalty = static_cast<float>(checked(fields.presence_penalty, -2, 2, "presence_penalty", 0));
  out.frequency_penalty =
      static_cast<float>(checked(fields.frequency_penalty, -2, 2, "frequency_penalty", 0));
  if (out.temperature <
      1e-5f) {  // greedy: the filters cannot change the argmax, the engine need not run them
    out.top_p = 1, out.top_k = 0, out.min_p = 0;
    if (fields.n > 1) bad_request("n", str("n must be 1 when using greedy sampling, got ", fields.n, "."));
  }
}

}  // namespace

SamplingParams resolve_sampling(const SamplingFields& fields, const SamplingDefaults& defaults,
                                const SamplingLimits& limits) {
  SamplingParams out;
  check_integer(fields.n >= 1 && fields.n <= kMaxSequences, "n", str("between 1 and ", kMaxSequences),
                fields.n);
  resolve_distribution(fields, defaults, out);
  out.max_tokens = resolve_max_tokens(fields, defaults, limits);
  out.min_tokens = fields.min_tokens.value_or(0);
  check_integer(out.min_tokens >= 0, "min_tokens", "at least 0", out.min_tokens);
  int64_t asked = fields.max_tokens.value_or(out.max_tokens);
  check_integer(out.min_tokens <= asked, "min_tokens", str("at most max_tokens=", asked), out.min_tokens);
  if (fields.seed && *fields.seed != -1) out.seed = fields.seed;
  out.ignore_eos = fields.ignore_eos;
  resolve_stops(fields, limits.vocab, out);
  resolve_masks(fields, limits.vocab, out);
  out.logprobs = checked_logprobs(fields.logprobs, limits, "logprobs");
  out.prompt_logprobs = checked_logprobs(fields.prompt_logprobs, limits, "prompt_logprobs");
  if (limits.echo && out.logprobs >= 0) out.prompt_logprobs = std::max(out.prompt_logprobs, out.logprobs);
  check_logprob_memory(out, fields.n, limits.prompt_tokens);
  out.logprobs_mode = limits.logprobs_mode;
  return out;
}

}  // namespace octavo
