#include "frontend/child.h"

#include <algorithm>

#include "frontend/stream.h"

namespace octavo {

Child::Child(const Text& text, std::shared_ptr<TokenStream> tokens, const Prepared& request)
    : tokens_(std::move(tokens)),
      decoder_(text.decoder(request.prompt, request.fields.skip_special_tokens)),
      stops_(request.fields.stop, request.fields.include_stop_str_in_output),
      request_(request) {}

bool Child::next(TextDelta& out, int64_t min_tokens) {
  if (ended_) return false;
  const auto [size, finished] = tokens_->seen();
  int64_t fresh = size - read_;
  if (!finished && (fresh == 0 || (read_ > 0 && fresh < min_tokens))) return false;
  int64_t last = std::min(size, read_ + Stream::kMaxDeltaTokens);
  while (read_ < last) {
    if (read_token(out)) {
      ended_ = true;
      out.finish = FinishReason::kStop;
      out.stop_string = stops_.matched();
      return true;
    }
  }
  if (finished && read_ == size) end(out);
  return true;
}

/// A token that ended its sequence has no text, but on request (include_stop_str_in_output).
bool Child::is_stop_token(int64_t i) const {
  const auto [size, finished] = tokens_->seen();
  return finished && i + 1 == size && tokens_->info().reason == FinishReason::kStop;
}

bool Child::read_token(TextDelta& out) {
  int64_t i = read_++;
  int32_t token = tokens_->token(i);
  out.tokens.push_back(token);
  if (request_.sampling.logprobs >= 0) out.logprobs.push_back(tokens_->logprobs(i));
  if (is_stop_token(i) && !request_.fields.include_stop_str_in_output) return false;
  return stops_.push(decoder_->push(token), i >= request_.sampling.min_tokens, out.text);
}

void Child::end(TextDelta& out) {
  ended_ = true;
  const FinishInfo& info = tokens_->info();
  out.finish = info.reason;
  out.error = info.error;
  // The decoder's rest may complete a stop string too.
  if (stops_.push(decoder_->finish(), read_ >= request_.sampling.min_tokens, out.text)) {
    out.finish = FinishReason::kStop;
    out.stop_string = stops_.matched();
    return;
  }
  stops_.finish(out.text);
  if (info.reason == FinishReason::kStop) out.stop_token = info.stop_token;
}

}  // namespace octavo
