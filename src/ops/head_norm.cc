#include <algorithm>

#include "ops/rowwise.h"

namespace octavo {

void head_norm(OpContext& ctx, float* x, int64_t ldx, int64_t tokens, int heads, int head_dim, const float* w,
               float eps) {
  auto rows = [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t)
      for (int h = 0; h < heads; ++h) {
        float* head = x + t * ldx + static_cast<int64_t>(h) * head_dim;
        ctx.kernels.elementwise.rms_norm(head, w, eps, head_dim, head);
      }
  };
  // 16,384 elements take about as long as a fork.
  const int64_t grain = std::max<int64_t>(1, 16384 / (static_cast<int64_t>(heads) * head_dim));
  if (tokens <= grain) return rows(0, tokens);
  ctx.team.run(static_cast<int>((tokens + grain - 1) / grain),
               [&](int piece, int) { rows(piece * grain, std::min(tokens, (piece + 1) * grain)); });
}

}  // namespace octavo
