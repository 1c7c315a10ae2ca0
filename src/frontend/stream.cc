#include "frontend/stream.h"

#include "frontend/child.h"
#include "frontend/frontend.h"

namespace octavo {

Stream::Stream(Frontend& frontend, Prepared request, std::vector<std::shared_ptr<TokenStream>> children,
               std::shared_ptr<Waker> waker)
    : frontend_(frontend), request_(std::move(request)), waker_(std::move(waker)), open_(children.size()) {
  for (auto& tokens : children)
    children_.push_back(std::make_unique<Child>(frontend.text(), std::move(tokens), request_));
}

Stream::~Stream() {
  waker_->wake = nullptr;
  for (auto& child : children_)
    if (!child->ended()) frontend_.end(child->tokens().id(), FinishReason::kAbort);
}

bool Stream::next(TextDelta& out, int64_t min_tokens) {
  out = {};
  for (size_t tried = 0; tried < children_.size(); ++tried) {
    size_t index =
        turn_++ % children_.size();  // in turn, so that one child's backlog does not hide the others
    Child& child = *children_[index];
    if (!child.next(out, min_tokens)) continue;
    out.index = static_cast<int>(index);
    if (child.ended()) {
      --open_;
      bool by_string = !out.stop_string.empty();
      if (by_string || !request_.fields.stop.empty())
        frontend_.end(child.tokens().id(), by_string ? FinishReason::kStop : FinishReason::kNone);
    }
    return true;
  }
  return false;
}

TokenLogprobs Stream::prompt_logprobs(int64_t position) const {
  return children_[0]->tokens().prompt_logprobs(position);
}

Usage Stream::usage() const {
  Usage usage{.prompt_tokens = static_cast<int64_t>(request_.prompt.size())};
  for (const auto& child : children_) usage.completion_tokens += child->count();
  if (children_[0]->tokens().finished()) usage.cached_tokens = info().cached_tokens;
  return usage;
}

const FinishInfo& Stream::info() const { return children_[0]->tokens().info(); }

const char* name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kError:
      return "error";
    case FinishReason::kNone:
      break;
  }
  return "";
}

}  // namespace octavo
