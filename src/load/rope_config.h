// Rotary position parameters as one normalised struct, from the key forms that published configs use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace octavo {

enum class RopeType { kDefault, kLinear, kDynamic, kLlama3, kYarn };

/// Inverse frequencies are theta^(-2i/d) for i < d/2, d = partial_rotary_factor * head_dim, changed by type
/// as in transformers' modeling_rope_utils; `freq_factors`, if given, divide them (GGUF's rope_freqs).
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  double factor = 1;                  ///< >= 1
  int64_t original_max_position = 0;  ///< positions before scaling; max_position_embeddings where not given
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  double beta_fast = 32, beta_slow = 1;              ///< yarn: rotations at the ends of the ramp
  bool truncate = true;         ///< yarn: the ramp's ends are rounded to whole dimensions
  double attention_factor = 1;  ///< multiplies cos and sin (yarn: given, from mscale, or 0.1 ln(factor) + 1)
  double partial_rotary_factor = 1;  ///< share of head_dim that is rotated
  std::vector<float> freq_factors;   ///< empty, or one divisor per frequency
};

std::string_view name(RopeType type);

/// Reads `rope_parameters` (transformers 5), else `rope_scaling` with `rope_theta` beside it; `type` or
/// `rope_type`. Error naming origin and key on an unknown type (the known ones are listed), a missing or
/// impossible value, or keys that contradict each other. `parameters`: an object nested in rope_parameters by
/// layer type to read instead, or null.
RopeConfig read_rope(const nlohmann::json& config, const std::string& origin, double default_theta,
                     int64_t max_position, const nlohmann::json* parameters = nullptr);

/// The model length that rope type and factor give: vLLM's rule. linear and dynamic: max_position * factor;
/// yarn: original_max_position * factor; llama3 and default: max_position (the config's value already
/// includes the scaling).
int64_t derived_max_length(const RopeConfig& rope, int64_t max_position);

}  // namespace octavo
