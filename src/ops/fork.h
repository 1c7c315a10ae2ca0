// When an op of small row-wise work forks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/team.h"

namespace octavo {

/// Elements of row-wise work that are worth a piece of their own. A fork and join costs about 1 us; an
/// element of a norm, rotation or activation in cache 0.1 to 0.4 ns: less than two pieces of this size run
/// faster on the caller alone.
inline constexpr int64_t kForkElements = 16 * 1024;

/// fn(begin, end) over [0, count) in pieces of at least kForkElements, of `elements` each; on the caller if
/// that is one.
template <class F>
void for_ranges(Team& team, int64_t count, int64_t elements, const F& fn) {
  const int64_t most = count * elements / kForkElements;  // pieces
  const int64_t pieces = std::min({most, count, int64_t{4} * team.size()});
  if (pieces < 2 || team.size() == 1) return fn(int64_t{0}, count);
  team.run(static_cast<int>(pieces),
           [&](int piece, int) { fn(count * piece / pieces, count * (piece + 1) / pieces); });
}

}  // namespace octavo
