// What the linear layers of a model read on a text: the statistics that smoothing (smooth.h) and
// error-compensated rounding (compensate.h) work from.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "ops/linear.h"

namespace octavo {

/// Inputs x [tokens, k] of one (fused) linear layer.
struct InputStatistics {
  int64_t k = 0;
  std::vector<float> absmax;   ///< [k]: largest magnitude of each input
  std::vector<float> samples;  ///< [rows, k]: some of the rows, evenly spaced
  int64_t rows() const { return static_cast<int64_t>(samples.size()) / k; }
};

struct CalibrationOptions {
  int64_t window = 512;                    ///< tokens that see each other
  int64_t sample_rows = 256;               ///< of each layer
  size_t product_bytes = size_t{4} << 30;  ///< memory for X^T X: layers beyond it need passes of their own
  std::function<void(int64_t tokens)> ran = [](int64_t) {};  ///< hears of each window, for a progress bar
};

/// Runs a text through a model in its own arithmetic, in windows from position 0.
class Calibrator {
 public:
  /// `model` runs in ctx, whose observer this sets while it runs. Error if the text is shorter than two
  /// tokens.
  Calibrator(Model& model, OpContext& ctx, std::vector<int32_t> ids, CalibrationOptions options);
  ~Calibrator();

  /// Of the layer with a part of this name; ran over the text at the first call. Null if the model never ran
  /// it.
  const InputStatistics* input(const std::string& part);
  /// X^T X [k, k] of that layer, float32 sums. Layers are best asked for in the order of the
  /// forward pass: each pass over the text keeps as many, from the one asked for, as product_bytes holds.
  const std::vector<float>* product(const std::string& part);
  int64_t tokens() const { return static_cast<int64_t>(ids_.size()); }

 private:
  class Observer;
  size_t index_of(const std::string& part) const;
  void run(Observer& observer);

  Model& model_;
  OpContext& ctx_;
  const std::vector<int32_t> ids_;
  const CalibrationOptions options_;
  std::map<std::string, size_t> index_;  ///< part name -> position in model.info().linears
  std::vector<InputStatistics> inputs_;  ///< per linear
  std::map<size_t, std::vector<float>> products_;
  bool has_inputs_ = false;
};

}  // namespace octavo
