// --quantization: weights of an unquantised checkpoint rounded to nearest as they are packed, row by row. The
// quantised copy exists only in the worker that packs it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "load/hf_config.h"
#include "load/host_weight.h"

namespace octavo {

struct OnlineQuantisation {
  std::string name;  ///< of the flag: "int8"
  kernels::WeightFormat format = kernels::WeightFormat::kW8A8;
  int64_t group = 0;  ///< inputs that share a scale; 0: all of a row
  /// Layers left as they are: names, ends of names, or re:REGEX (names_layer()).
  std::vector<std::string> ignore = {"lm_head"};
};

/// What `--quantization flag --quantization-config config` asks of this model: int8 (W8A8, a scale for each
/// output), int4 (W4A8, groups of 32), fp8 (e4m3, a scale for each output), mxfp4 (blocks of 32), or a
/// checkpoint's own quant_method, which changes nothing. `config` is vLLM's object, of which "ignore" counts
/// (null: none). Absent where nothing is to be done. Error: an unknown value, or one that contradicts the
/// checkpoint.
std::optional<OnlineQuantisation> online_quantisation(const std::string& flag, const nlohmann::json& config,
                                                      const ModelConfig& model);

/// Makes a plain weight one that is quantised as it is read, unless `online` ignores it; `role` is the name
/// its layer goes by in lists where its tensor is another's (a tied lm_head). A weight that is quantised
/// already in this format stays; in another: Error.
void quantise_online(const OnlineQuantisation& online, const std::string& role, HostWeight& weight);

}  // namespace octavo
