#include "load/quant/online.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "load/quant/rounding.h"
#include "load/quant/scheme.h"

namespace octavo {
namespace {

using kernels::WeightFormat;
using quant::Element;

struct OnlineScheme {
  const char* flag;
  WeightFormat format;
  int64_t group;
  Element element;
};

constexpr OnlineScheme kSchemes[] = {
    {"int8", WeightFormat::kW8A8, 0, Element::kInt8},
    {"int4", WeightFormat::kW4A8, 32, Element::kInt4},
    {"fp8", WeightFormat::kFP8, 0, Element::kE4M3},
    {"mxfp4", WeightFormat::kMXFP4, 32, Element::kE2M1},
};

/// vLLM's names of methods that a checkpoint brings itself: the flag only confirms them.
struct Confirmed {
  const char* flag;
  const char* method;
};
constexpr Confirmed kConfirmed[] = {
    {"compressed-tensors", "compressed-tensors"},
    {"awq", "awq"},
    {"awq_marlin", "awq"},
    {"gptq", "gptq"},
    {"gptq_marlin", "gptq"},
    {"fp8", "fp8"},
    {"mxfp4", "mxfp4"},
};

/// Codes and scales of smaller groups would not fit into a float for each input (scratch).
constexpr int64_t kMinGroup = 4;
/// Rows at a time through float32: enough to amortise a call, and in the cache.
constexpr int64_t kRows = 4;

/// Scratch holds k floats a row: k bytes for the codes and, after those of all rows, the scales.
template <Element kElement>
void read_online(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
                 kernels::WeightRows& rows) {
  const quant::Rounding rounding{kElement, weight.group, quant::Scales::kMinMax,
                                 weight.half_scales ? quant::ScaleFormat::kF16 : quant::ScaleFormat::kF32};
  const int64_t k = weight.k, groups = k / weight.group, step = weight.transposed ? n1 - n0 : kRows;
  auto* q = reinterpret_cast<int8_t*>(scratch);
  auto* scales = reinterpret_cast<float*>(scratch + ((n1 - n0) * k + 3) / 4 * 4);
  rows.q = q;
  rows.scales = scales;
  std::vector<float> buffer(std::min(step, n1 - n0) * k);
  for (int64_t first = n0; first < n1; first += step) {
    const int64_t last = std::min(n1, first + step);
    const float* x = weight.read_plain(first, last, buffer.data());
    for (int64_t row = first; row < last; ++row, x += k, q += k, scales += groups)
      if (!quant::round_row(rounding, x, k, q, scales))
        throw Error("tensor '", weight.name, "' has a value that is not finite, in row ", row);
  }
}

HostWeight::Reader reader_of(Element element) {
  switch (element) {
    case Element::kInt8:
      return read_online<Element::kInt8>;
    case Element::kInt4:
      return read_online<Element::kInt4>;
    case Element::kE4M3:
      return read_online<Element::kE4M3>;
    case Element::kE2M1:
      break;
  }
  return read_online<Element::kE2M1>;
}

const OnlineScheme* find_online(const std::string& flag) {
  for (const OnlineScheme& scheme : kSchemes)
    if (flag == scheme.flag) return &scheme;
  return nullptr;
}

std::vector<std::string> ignored_layers(const nlohmann::json& config) {
  JsonFields fields(config, "--quantization-config");
  for (const auto& [key, value] : config.items())
    if (key != "ignore") throw Error("--quantization-config: '", key, "' is not supported, only ignore is");
  std::vector<std::string> out;
  const nlohmann::json* ignore = fields.find({"ignore"});
  if (!ignore) return out;
  if (!ignore->is_array()) fields.fail({"ignore"}, "a list of names");
  for (const nlohmann::json& pattern : *ignore) {
    if (!pattern.is_string()) fields.fail({"ignore"}, "a list of names");
    out.push_back(pattern.get<std::string>());
    names_layer(out.back(), "");  // an Error now if it is no regular expression
  }
  return out;
}

/// True if the flag is a name of the method that the checkpoint states.
bool confirms(const std::string& flag, const ModelConfig& model) {
  const Confirmed* known = nullptr;
  const std::string method =
      model.quantization ? JsonFields(*model.quantization, model.origin).text({"quant_method"}, "") : "";
  for (const Confirmed& row : kConfirmed) {
    if (flag != row.flag) continue;
    known = &row;
    if (method == row.method) return true;
  }
  if (known && !find_online(flag))
    throw Error("--quantization ", flag, ": ", model.origin,
                method.empty() ? " is not quantised" : " is quantised by '" + method + "'");
  return false;
}

}  // namespace

std::optional<OnlineQuantisation> online_quantisation(const std::string& flag, const nlohmann::json& config,
                                                      const ModelConfig& model) {
  if (flag.empty() || flag == "none" || flag == "auto") return std::nullopt;
  if (confirms(flag, model)) return std::nullopt;
  const OnlineScheme* scheme = find_online(flag);
  if (!scheme)
    throw Error("--quantization ", flag,
                ": expected int8, int4, fp8 or mxfp4, or the quant_method of a checkpoint");
  OnlineQuantisation out{.name = flag, .format = scheme->format, .group = scheme->group};
  if (!config.is_null()) out.ignore = ignored_layers(config);
  return out;
}

void quantise_online(const OnlineQuantisation& online, const std::string& role, HostWeight& weight) {
  if (weight.reader) {
    if (weight.format == online.format) return;
    throw Error("--quantization ", online.name, ": tensor '", weight.name,
                "' is quantised already, in another format");
  }
  std::string layer = weight.name;
  if (layer.ends_with(".weight")) layer.resize(layer.size() - std::string(".weight").size());
  for (const std::string& pattern : online.ignore)
    if (names_layer(pattern, layer) || names_layer(pattern, role)) return;
  if (info(weight.values.dtype).block_elements > 1)
    throw Error("--quantization ", online.name, ": tensor '", weight.name, "' is quantised already, as ",
                name(weight.values.dtype));
  weight.group = online.group ? online.group : weight.k;
  const bool chunks = static_cast<int>(online.format) < kernels::kFirstBlockFormat || weight.k % 32 == 0;
  if (weight.k % weight.group || weight.group < kMinGroup || !chunks)
    throw Error("--quantization ", online.name, ": layer '", layer, "' has ", weight.k,
                " inputs, which cannot be quantised in groups of ", weight.group,
                "; --quantization-config {\"ignore\": [...]} leaves it as it is");
  weight.format = online.format;
  weight.element = find_online(online.name)->element;
  weight.reader = reader_of(weight.element);
  weight.half_scales = online.format == WeightFormat::kW4A8;  // half a bit less of every weight to read
}

}  // namespace octavo
