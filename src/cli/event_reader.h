// Server-sent events as clients of completion APIs need them.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

/// Cuts a stream of text into the data of its events; comments are skipped.
class EventReader {
 public:
  template <class F>
  void push(std::string_view text, const F& on_event) {
    pending_ += text;
    size_t start = 0;
    for (size_t end; (end = pending_.find('\n', start)) != pending_.npos; start = end + 1) {
      std::string_view line(pending_.data() + start, end - start);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.starts_with("data: ")) on_event(line.substr(6));
    }
    pending_.erase(0, start);
  }

 private:
  std::string pending_;
};

}  // namespace octavo
