#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace octavo::tok {

/// Bytes [begin, end) of a text.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const Span&) const = default;
};
using Spans = std::vector<Span>;

inline std::string_view slice(std::string_view text, Span span) {
  return std::string_view(text.data() + span.begin, span.end - span.begin);
}

}  // namespace octavo::tok
