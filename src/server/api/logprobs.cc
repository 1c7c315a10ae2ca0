#include "server/api/logprobs.h"

#include <cmath>

namespace octavo {
namespace {

int64_t characters(std::string_view utf8) {
  int64_t count = 0;
  for (char c : utf8) count += (c & 0xc0) != 0x80;
  return count;
}

/// U+FFFD for every byte that is not part of valid UTF-8.
std::string replace_invalid(const std::string& bytes) {
  return Json::parse(dump(Json(bytes))).get<std::string>();
}

}  // namespace

double finite_logprob(float value) {
  return std::isfinite(value) ? std::max(static_cast<double>(value), -9999.0) : -9999.0;
}

std::string token_text(const Text& text, int32_t id, bool as_id) {
  if (as_id) return "token_id:" + std::to_string(id);
  return replace_invalid(text.token_bytes(id));
}

void CompletionLogprobs::add(int32_t token, TokenLogprobs entries) {
  std::string shown = token_text(text_, token, as_id_);
  offsets_.push_back(offset_);
  offset_ += characters(as_id_ ? text_.token_bytes(token) : shown);
  tokens_.push_back(shown);
  if (entries.empty()) {
    values_.push_back(nullptr);
    tops_.push_back(nullptr);
    return;
  }
  values_.push_back(finite_logprob(entries[0].logprob));
  Json top = Json::object();
  top[shown] = finite_logprob(entries[0].logprob);
  for (int64_t i = 1; i <= top_ && i < static_cast<int64_t>(entries.size()); ++i) {
    // Of tokens that look alike (lone bytes) the likeliest, be it the chosen one or not: evaluations take a
    // token for the greedy one if nothing here is above it.
    std::string key = token_text(text_, entries[i].id, as_id_);
    double value = finite_logprob(entries[i].logprob);
    if (!top.contains(key) || top[key].get<double>() < value) top[key] = value;
  }
  tops_.push_back(std::move(top));
}

Json CompletionLogprobs::take() {
  Json out{{"text_offset", std::move(offsets_)},
           {"token_logprobs", std::move(values_)},
           {"tokens", std::move(tokens_)},
           {"top_logprobs", std::move(tops_)}};
  offsets_ = values_ = tokens_ = tops_ = Json::array();
  return out;
}

namespace {

Json chat_entry(const Text& text, const TokenLogprob& entry, bool as_id) {
  std::string bytes = text.token_bytes(entry.id);
  Json list = Json::array();
  for (char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(text, entry.id, as_id)},
          {"logprob", finite_logprob(entry.logprob)},
          {"bytes", std::move(list)}};
}

}  // namespace

Json chat_logprob(const Text& text, TokenLogprobs entries, int64_t top, bool as_id) {
  Json out = chat_entry(text, entries[0], as_id);
  out["top_logprobs"] = Json::array();
  for (int64_t i = 1; i <= top && i < static_cast<int64_t>(entries.size()); ++i)
    out["top_logprobs"].push_back(chat_entry(text, entries[i], as_id));
  return out;
}

Json prompt_logprobs_json(const Text& text, const Stream& stream) {
  if (!stream.request().fields.prompt_logprobs) return nullptr;
  Json out = Json::array({nullptr});
  for (int64_t i = 1; i < static_cast<int64_t>(stream.prompt().size()); ++i) {
    Json position = Json::object();
    TokenLogprobs entries = stream.prompt_logprobs(i);
    int64_t limit = *stream.request().fields.prompt_logprobs;
    for (int64_t j = 0; j < static_cast<int64_t>(entries.size()) && (limit < 0 || j <= limit); ++j) {
      std::string key = std::to_string(entries[j].id);
      if (!position.contains(key))
        position[key] = {{"logprob", finite_logprob(entries[j].logprob)},
                         {"rank", entries[j].rank},
                         {"decoded_token", token_text(text, entries[j].id, false)}};
    }
    out.push_back(std::move(position));
  }
  return out;
}

}  // namespace octavo
