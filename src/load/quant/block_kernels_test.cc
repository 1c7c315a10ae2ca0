// Weights that run as stored: every kernel level computes with the floats that dequantising gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "load/hf_config.h"
#include "load/host_weight.h"
#include "load/quant/gguf_blocks.h"
#include "load/quant/int8_activations.h"
#include "load/test_files.h"

namespace octavo {
namespace {

using kernels::WeightFormat;
using test::golden;

/// A weight's rows as kernels pack them, and decoded.
struct Rows {
  std::vector<float> scratch, decoded;
  kernels::WeightRows stored, plain;

  explicit Rows(HostWeight& weight) : scratch(weight.n * weight.k), decoded(weight.n * weight.k) {
    weight.read_rows(0, weight.n, scratch.data(), stored);
    const WeightFormat format = std::exchange(weight.format, WeightFormat::kF32);
    weight.read_rows(0, weight.n, decoded.data(), plain);
    weight.format = format;
  }
};

/// A kernel's weights [k, n], read with unit vectors.
std::vector<float> weights_of(const kernels::LinearKernel& kernel, const HostWeight& weight,
                              const kernels::WeightRows& stored) {
  const int64_t n = weight.n, k = weight.k;
  const kernels::LinearShape shape = weight.shape();
  std::vector<std::byte> packed(kernel.packed_bytes(shape)), prepared(kernel.prepared_bytes(k, shape));
  kernel.pack(stored, 0, n, shape, packed.data());
  std::vector<float> x(k * k), y(k * n);
  for (int64_t i = 0; i < k; ++i) x[i * k + i] = 1;
  if (kernel.prepare) kernel.prepare(x.data(), k, 0, k, k, shape, prepared.data());
  kernels::LinearRun run{};
  run.packed = packed.data(), run.prepared = prepared.data();
  run.x = x.data(), run.ldx = k, run.y = y.data(), run.ldy = n;
  run.shape = shape;
  run.m = run.m1 = k, run.n1 = n;
  kernel.run(run);
  return y;
}

/// Every kernel of a format: of all levels, with and without BF16 products.
std::vector<const kernels::LinearKernel*> kernels_of(WeightFormat format) {
  std::vector<const kernels::LinearKernel*> out;
  const int i = static_cast<int>(format), block = i - kernels::kFirstBlockFormat;
  for (const char* const* isa = kernels::available(); *isa; ++isa) {
    out.push_back(&kernels::select(*isa).linear[i]);
    if (block >= 0) out.push_back(&kernels::select(*isa).bf16_blocks[block]);
  }
  return out;
}

/// Expects the kernels' weights to be those of the decoded weight. They are read with inputs of one element,
/// which no kernel rounds; but a weight's two terms are added apart, so the last bits differ.
void expect_decoded_weights(HostWeight& weight) {
  ASSERT_TRUE(weight.runs_as_stored()) << weight.name;
  const int64_t n = weight.n, k = weight.k;
  const Rows rows(weight);
  const int64_t elements = weight.is_blocks() ? info(weight.values.dtype).block_elements : k;
  std::vector<float> most(n * k / elements);  // of a block, or of a row
  for (int64_t i = 0; i < n * k; ++i)
    most[i / elements] = std::max(most[i / elements], std::abs(rows.plain.values[i]));
  for (const kernels::LinearKernel* kernel : kernels_of(weight.format)) {
    const std::vector<float> y = weights_of(*kernel, weight, rows.stored);
    for (int64_t row = 0; row < n; ++row)
      for (int64_t j = 0; j < k; ++j) {
        const int64_t from = row * k + (weight.permutation.empty() ? j : weight.permutation[j]);
        ASSERT_NEAR(y[j * n + row], rows.plain.values[from], 2e-6f * most[from / elements])
            << kernel->name << ", " << weight.name << " row " << row << " input " << j;
      }
  }
}

struct BlockType {
  DType dtype;
  std::vector<int> halves;  ///< where a block holds float16s
};

// All code and scale patterns, also ones that no quantiser makes.
TEST(BlockKernels, GgufBlocks) {
  const BlockType types[] = {{DType::kQ4_0, {0}},    {DType::kQ4_1, {0, 2}}, {DType::kQ5_0, {0}},
                             {DType::kQ5_1, {0, 2}}, {DType::kQ8_0, {0}},    {DType::kQ2_K, {80, 82}},
                             {DType::kQ3_K, {108}},  {DType::kQ4_K, {0, 2}}, {DType::kQ5_K, {0, 2}},
                             {DType::kQ6_K, {208}},  {DType::kIQ4_NL, {0}},  {DType::kMXFP4, {}}};
  std::mt19937 gen(7);
  for (const BlockType& type : types) {
    const DTypeInfo& block = info(type.dtype);
    const int64_t n = 24, k = 768, bytes = n * k / block.block_elements * block.block_bytes;
    std::vector<uint8_t> data(bytes);
    for (uint8_t& b : data) b = static_cast<uint8_t>(gen());
    for (int64_t i = 0; i < bytes; i += block.block_bytes) {
      for (int at : type.halves)
        if ((data[i + at + 1] & 0x7c) == 0x7c) data[i + at + 1] ^= 0x40;  // infinite or not a number
      if (type.dtype == DType::kMXFP4 && data[i] > 250) data[i] = 250;    // 12 * 2^e stays finite
    }
    Checkpoint checkpoint("file");
    checkpoint.add({{"w.weight", type.dtype, {n, k}, "file"}, reinterpret_cast<std::byte*>(data.data()), 0});
    ModelConfig config;
    HostWeight weight = linear_weight(checkpoint, config, "w", n, k);
    expect_decoded_weights(weight);
    const WeightFormat floats = weight.format;
    use_int8_blocks(weight);
    const bool wide = type.dtype == DType::kIQ4_NL;  // values of 8 bits from codes of 4: no int8 kernel
    EXPECT_EQ(weight.format == floats, wide) << block.name;
    if (!wide) expect_decoded_weights(weight);
  }
}

TEST(BlockKernels, Checkpoints) {
  const char* names[] = {"llama-w4a16-g32",         "llama-w4a16-asym-g32",    "llama-w4a16-channel",
                         "llama-w4a16-g128-ignore", "llama-awq-g32",           "llama-gptq-g32",
                         "llama-gptq-g32-asym",     "llama-gptq-g32-actorder", "qwen3-fp8-dynamic"};
  for (const char* name : names) {
    const std::string folder = golden(std::string("quantised/") + name);
    Checkpoint checkpoint = open_safetensors(folder);
    const ModelConfig config = load_config(folder);
    HostWeight weight =
        linear_weight(checkpoint, config, "model.layers.0.mlp.up_proj", config.intermediate, config.hidden);
    SCOPED_TRACE(name);
    expect_decoded_weights(weight);
  }
}

/// A layer "m" of 8 outputs in compressed-tensors' int-quantized form with 8 bits, weights only.
HostWeight int8_layer(int64_t k, const std::vector<float>& scales) {
  static std::vector<std::vector<int8_t>> kept;
  std::vector<int8_t>& q = kept.emplace_back(8 * k);
  for (int64_t i = 0; i < 8 * k; ++i) q[i] = static_cast<int8_t>(i * 37);
  Checkpoint checkpoint("folder");
  checkpoint.add({{"m.weight", DType::kI8, {8, k}, "file"}, reinterpret_cast<std::byte*>(q.data()), 0});
  checkpoint.add({{"m.weight_scale", DType::kF32, {8, 1}, "file"},
                  reinterpret_cast<const std::byte*>(scales.data()),
                  0});
  ModelConfig config;
  config.origin = "config.json";
  config.quantization = std::make_shared<nlohmann::json>(nlohmann::json::parse(R"({
    "quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {
      "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})"));
  return linear_weight(checkpoint, config, "m", 8, k);
}

TEST(BlockKernels, Int8WeightsOnly) {
  HostWeight weight = int8_layer(320, std::vector<float>(8, 0.0078125f * 1.5f));
  EXPECT_EQ(weight.format, WeightFormat::kW8A16);
  expect_decoded_weights(weight);
}

/// A layer "m" of 8 outputs in compressed-tensors' mxfp4-pack-quantized form.
struct Mxfp4Layer {
  static constexpr int64_t kInputs = 96;
  std::vector<uint8_t> packed = std::vector<uint8_t>(8 * kInputs / 2),
                       scales = std::vector<uint8_t>(8 * kInputs / 32);

  Mxfp4Layer() {
    std::mt19937 gen(3);
    for (uint8_t& v : packed) v = static_cast<uint8_t>(gen());
    for (uint8_t& v : scales) v = static_cast<uint8_t>(110 + gen() % 20);
  }
  HostWeight load(int64_t group = 32) const {
    Checkpoint checkpoint("folder");
    checkpoint.add({{"m.weight_packed", DType::kU8, {8, kInputs / 2}, "file"},
                    reinterpret_cast<const std::byte*>(packed.data()),
                    0});
    checkpoint.add({{"m.weight_scale", DType::kU8, {8, kInputs / 32}, "file"},
                    reinterpret_cast<const std::byte*>(scales.data()),
                    0});
    ModelConfig config;
    config.origin = "config.json";
    auto json = nlohmann::json::parse(R"({
      "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {"g": {
        "targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "group",
        "symmetric": true}, "input_activations": {"num_bits": 4, "type": "float", "strategy": "group",
        "dynamic": true, "group_size": 32}}}})");
    json["config_groups"]["g"]["weights"]["group_size"] = group;
    config.quantization = std::make_shared<nlohmann::json>(json);
    return linear_weight(checkpoint, config, "m", 8, kInputs);
  }
};

TEST(BlockKernels, CompressedTensorsMxfp4) {
  const Mxfp4Layer layer;
  HostWeight weight = layer.load();
  EXPECT_EQ(weight.format, WeightFormat::kMXFP4);
  const Rows rows(weight);
  const float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};  // OCP Microscaling Formats 1.0, E2M1
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t j = 0; j < Mxfp4Layer::kInputs; ++j) {
      const int byte = layer.packed[(row * Mxfp4Layer::kInputs + j) / 2],
                code = j % 2 ? byte >> 4 : byte & 15;
      const int exponent = layer.scales[row * Mxfp4Layer::kInputs / 32 + j / 32] - 127;
      const float want = std::ldexp(values[code & 7], exponent) * (code & 8 ? -1.0f : 1.0f);
      ASSERT_EQ(rows.plain.values[row * Mxfp4Layer::kInputs + j], want) << row << ", " << j;
    }
  expect_decoded_weights(weight);
}

TEST(BlockKernels, CompressedTensorsMxfp4RefusesWhatItIsNot) {
  Mxfp4Layer layer;
  EXPECT_THROW(layer.load(16), Error);
  layer.scales[5] = 255;
  EXPECT_THROW(layer.load(), Error);
}

// What a kernel could not hold exactly is decoded instead: scales of more than float16's precision, inputs
// that are no whole chunks.
TEST(BlockKernels, WhatDoesNotFitIsDecoded) {
  EXPECT_FALSE(int8_layer(320, std::vector<float>(8, 0.1f)).runs_as_stored());
  EXPECT_FALSE(int8_layer(40, std::vector<float>(8, 0.5f)).runs_as_stored());
}

}  // namespace
}  // namespace octavo
