// Smoothing: activation outliers moved into the weights before rounding (SmoothQuant, arXiv 2211.10438).
// Input j of a layer is divided by s_j where it is produced (a norm's weight, or the rows of the layer
// before), and column j of the layer multiplied by it; the function of the model stays.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "load/checkpoint.h"
#include "load/hf_config.h"
#include "load/quant/rounding.h"
#include "model/calibrate.h"

namespace octavo {

/// Factors by layer name ("model.layers.0.self_attn.q_proj") and by norm tensor.
struct Smoothing {
  std::map<std::string, std::vector<float>> columns;   ///< [k]: multiply the weight's columns
  std::map<std::string, std::vector<float>> divisors;  ///< [n]: divide the weight's rows, and the bias
  std::map<std::string, std::vector<float>> norms;     ///< tensor name -> its new values, exact in BF16
};

struct SmoothTarget {
  quant::Rounding rounding;      ///< of the weights
  bool int8_activations = true;  ///< rounded per token; else they stay floats
};

/// Factors s_j = max|x_j|^a / max|w_j|^(1-a) for every norm -> layer and layer -> layer pair of Llama's form
/// whose layers are all in `layers` (those that will be quantised), with a, of a small grid, that leaves the
/// least squared error of the layer's outputs on the calibrator's samples; none where that is not better.
Smoothing find_smoothing(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx,
                         Calibrator& calibrator, const std::vector<LinearInfo>& layers,
                         const SmoothTarget& target);

}  // namespace octavo
