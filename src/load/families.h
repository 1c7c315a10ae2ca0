// What Hugging Face's config class of each supported architecture assumes where config.json is silent, and
// what its layers fix whatever config.json says. A new architecture is one row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "load/hf_config.h"
#include "load/json.h"

namespace octavo {

enum class WindowRule {
  kNone,      ///< sliding_window is ignored
  kAll,       ///< every layer, if sliding_window is set
  kFromLayer  ///< if use_sliding_window: layers from max_window_layers on
};

struct FamilyDefaults {
  int64_t hidden, layers, heads;
  int64_t kv_heads;      ///< 0: heads
  int64_t head_dim;      ///< 0: hidden / heads
  int64_t intermediate;  ///< 0: 4 * hidden
  int64_t vocab, max_position;
  double norm_eps, theta;
  std::string_view activation;
  bool tied;
  int32_t bos_id, eos_id;  ///< -1: none
  WindowRule window_rule;
  int64_t sliding_window;
};

struct Family {
  std::string_view architecture, model_type;
  FamilyDefaults defaults;
  void (*set)(const JsonFields& fields, ModelConfig& out);  ///< norms, biases, positions
};

std::span<const Family> families();

}  // namespace octavo
