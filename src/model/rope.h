// Rotary position tables for every scaling type that configs name.
#pragma once

#include "load/rope_config.h"
#include "ops/rowwise.h"

namespace octavo {

/// Rotated dimensions of a head: partial_rotary_factor * head_dim.
int rotary_dims(const RopeConfig& config, int64_t head_dim);

/// Inverse frequencies [rotary / 2], in the float32 that transformers computes them in: its angle at position
/// p is the float32 product p * inv_freq, and at p = 100,000 an ulp of that is 0.4 degrees, so models have
/// learned the rounding. `base` replaces config.theta where it is above 0 (dynamic scaling changes it with
/// the length).
std::vector<float> rope_frequencies(const RopeConfig& config, int rotary, double base = 0);

/// Cosines and sines of positions [0, positions), the attention factor multiplied in.
/// Dynamic scaling is a function of the length so far: position p >= original_max_position is rotated for
/// length p + 1, as transformers does while it generates token by token. (It rotates the tokens of one long
/// prompt alike, for the prompt's length: then the same tokens have other keys after another chunking or a
/// prefix hit, which a cache must not have.)
RopeTable rope_table(OpContext& ctx, const RopeConfig& config, int64_t head_dim, int64_t positions);

}  // namespace octavo
