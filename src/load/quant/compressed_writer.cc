#include "load/quant/compressed_writer.h"

#include <cstring>

#include "base/dtype.h"

namespace octavo::quant {
namespace {

using Json = nlohmann::ordered_json;

// w4a8 stores a byte for each value, as the compressed-tensors library does with 8-bit activations: vLLM's
// kernel for it reads no other layout.
constexpr OutputScheme kSchemes[] = {
    {"w8a8", "int-quantized", Element::kInt8, 8, true, false, false},
    {"w4a8", "int-quantized", Element::kInt4, 4, true, true, false},
    {"w4a16", "pack-quantized", Element::kInt4, 4, false, true, true},
    {"fp8", "float-quantized", Element::kE4M3, 8, true, false, false},
};

/// QuantizationArgs: all its fields, as the library writes them.
Json arguments(int bits, const char* type, const char* strategy, bool dynamic, int64_t group) {
  return {{"actorder", nullptr},
          {"block_structure", nullptr},
          {"dynamic", dynamic},
          {"group_size", group ? Json(group) : Json(nullptr)},
          {"num_bits", bits},
          {"observer", dynamic ? Json(nullptr) : Json("minmax")},
          {"observer_kwargs", Json::object()},
          {"strategy", strategy},
          {"symmetric", true},
          {"type", type}};
}

void pack_words(const int8_t* q, int64_t n, int64_t k, std::byte* out) {
  const int64_t words = (k + 7) / 8;
  for (int64_t row = 0; row < n; ++row, q += k)
    for (int64_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      for (int64_t i = w * 8; i < std::min(k, w * 8 + 8); ++i)
        word |= static_cast<uint32_t>(q[i] + 8) << (4 * (i % 8));
      std::memcpy(out + (row * words + w) * sizeof word, &word, sizeof word);
    }
}

}  // namespace

const OutputScheme& output_scheme(const std::string& name) {
  std::string known;
  for (const OutputScheme& scheme : kSchemes) {
    if (name == scheme.name) return scheme;
    known += std::string(known.empty() ? "" : ", ") + scheme.name;
  }
  throw Error("--scheme ", name, ": expected one of ", known);
}

Json quantization_config(const OutputScheme& scheme, int64_t group, const std::vector<std::string>& ignore) {
  const char* type = scheme.element == Element::kE4M3 ? "float" : "int";
  const Json weights = arguments(scheme.bits, type, group ? "group" : "channel", false, group);
  const Json inputs = scheme.int8_activations ? arguments(8, type, "token", true, 0) : Json(nullptr);
  return {{"config_groups",
           {{"group_0",
             {{"format", scheme.format},
              {"input_activations", inputs},
              {"output_activations", nullptr},
              {"targets", {"Linear"}},
              {"weights", weights}}}}},
          {"format", scheme.format},
          {"global_compression_ratio", nullptr},
          {"ignore", ignore},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

std::vector<OutputTensor> output_tensors(const OutputScheme& scheme, const std::string& layer, int64_t n,
                                         int64_t k, int64_t group) {
  const OutputTensor scales{layer + ".weight_scale", DType::kBF16, {n, group ? k / group : 1}};
  if (scheme.packed)
    return {{layer + ".weight_packed", DType::kI32, {n, (k + 7) / 8}},
            scales,
            {layer + ".weight_shape", DType::kI64, {2}}};
  const DType dtype = scheme.element == Element::kE4M3 ? DType::kF8E4M3 : DType::kI8;
  return {{layer + ".weight", dtype, {n, k}}, scales};
}

void store(const OutputScheme& scheme, int64_t n, int64_t k, int64_t group, const int8_t* q,
           const float* scales, const std::vector<std::byte*>& out) {
  if (scheme.packed)
    pack_words(q, n, k, out[0]);
  else
    std::memcpy(out[0], q, n * k);
  const int64_t count = n * (group ? k / group : 1);
  for (int64_t i = 0; i < count; ++i) {
    const BFloat16 scale = to_bf16(scales[i]);
    std::memcpy(out[1] + i * sizeof scale, &scale, sizeof scale);
  }
  if (scheme.packed) {
    const int64_t shape[2] = {n, k};
    std::memcpy(out[2], shape, sizeof shape);
  }
}

}  // namespace octavo::quant
