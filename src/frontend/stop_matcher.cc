#include "frontend/stop_matcher.h"

#include <algorithm>

namespace octavo {

bool StopMatcher::push(std::string_view text, bool may_match, std::string& out) {
  if (stops_.empty() || !may_match) {
    out += held_;  // empty unless may_match went back to false, which it does not
    held_.clear();
    out += text;
    return false;
  }
  held_ += text;
  size_t best = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    size_t at = held_.find(stops_[i]);
    if (at == std::string::npos || at > best) continue;
    if (at == best && stops_[i].size() <= stops_[matched_].size()) continue;
    best = at;
    matched_ = i;
  }
  if (best != std::string::npos) {
    out.append(held_, 0, best + (include_stop_ ? stops_[matched_].size() : 0));
    held_.clear();
    return true;
  }
  size_t keep = held_tail();
  out.append(held_, 0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return false;
}

void StopMatcher::finish(std::string& out) {
  out += held_;
  held_.clear();
}

size_t StopMatcher::held_tail() const {
  size_t keep = 0;
  for (const std::string& stop : stops_)
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length)
      if (held_.ends_with(std::string_view(stop).substr(0, length))) {
        keep = length;
        break;
      }
  return keep;
}

}  // namespace octavo
