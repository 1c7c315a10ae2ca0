// A model's tensors as a quantised compressed-tensors folder holds them, made one layer at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "load/quant/compressed_writer.h"
#include "model/calibrate.h"
#include "model/registry.h"

namespace octavo {

struct QuantiseOptions {
  quant::OutputScheme scheme;
  int64_t group = 0;  ///< inputs that share a scale; 0: all of a row
  quant::Scales scales = quant::Scales::kMinMax;
  std::vector<std::string> ignore = {"lm_head"};  ///< layers that stay as they are (names_layer())
};

struct QuantisePlan {
  std::vector<OutputGroup>
      groups;  ///< fills read the checkpoint, config and calibrator that it was made with
  std::vector<std::string> ignored;  ///< linear layers left as they are: the config's ignore list
  int64_t layers = 0;                ///< quantised ones
};

/// Rounds to nearest; with a calibrator, smooths and compensates instead. Error for a checkpoint that is
/// quantised already, and for layers that the format cannot hold (they are named).
QuantisePlan plan_quantised(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx,
                            const QuantiseOptions& options, Calibrator* calibrator = nullptr);

}  // namespace octavo
