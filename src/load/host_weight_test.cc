#include "load/host_weight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load/dequantise.h"
#include "load/hf_config.h"
#include "load/test_files.h"

namespace octavo {
namespace {

using test::contains;
using test::error_of;
using test::golden;
using test::TempFolder;

std::vector<float> rows_of(const HostWeight& weight, int64_t n0, int64_t n1) {
  std::vector<float> scratch((n1 - n0) * weight.k);
  kernels::WeightRows rows;
  weight.read_rows(n0, n1, scratch.data(), rows);
  return {rows.values, rows.values + scratch.size()};
}

TEST(HostWeight, PlainWeights) {
  TempFolder folder;
  std::string header = R"({"f.weight":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},)"
                       R"("h.weight":{"dtype":"F16","shape":[1,2],"data_offsets":[24,28]},)"
                       R"("i.weight":{"dtype":"I32","shape":[1,1],"data_offsets":[28,32]}})";
  float values[6] = {0, 1, 2, 3, 4, 5};
  std::string data(32, '\0');
  std::memcpy(data.data(), values, 24);
  uint16_t halves[2] = {0x3c00, 0xc000};
  std::memcpy(data.data() + 24, halves, 4);
  folder.write("model.safetensors", test::safetensors_bytes(header, data));
  Checkpoint checkpoint = open_safetensors(folder.path());
  ModelConfig config;

  HostWeight f = linear_weight(checkpoint, config, "f", 3, 2);
  EXPECT_EQ(f.format, kernels::WeightFormat::kF32);
  EXPECT_EQ(rows_of(f, 1, 3), (std::vector<float>{2, 3, 4, 5}));
  HostWeight conv = linear_weight(checkpoint, config, "f", 2, 3, WeightLayout::kConv1d);
  EXPECT_EQ(rows_of(conv, 0, 2), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(rows_of(conv, 1, 2), (std::vector<float>{1, 3, 5}));
  HostWeight h = linear_weight(checkpoint, config, "h", 1, 2);
  EXPECT_EQ(h.format, kernels::WeightFormat::kBF16);
  EXPECT_EQ(rows_of(h, 0, 1), (std::vector<float>{1, -2}));
  EXPECT_TRUE(contains(error_of([&] { linear_weight(checkpoint, config, "f", 2, 3); }), "expected [2, 3]"));
  EXPECT_TRUE(contains(error_of([&] { linear_weight(checkpoint, config, "i", 1, 1); }), "dtype I32"));
  EXPECT_EQ(float_tensor(checkpoint, "h.weight", {1, 2}), (std::vector<float>{1, -2}));
}

TEST(HostWeight, BlockTypesReadByRow) {
  Checkpoint checkpoint = open_gguf(golden("gguf/llama-q4_0.gguf"));
  ModelConfig config = load_gguf_config(golden("gguf/llama-q4_0.gguf"));
  HostWeight up =
      linear_weight(checkpoint, config, "model.layers.0.mlp.up_proj", config.intermediate, config.hidden);
  EXPECT_EQ(up.values.dtype, DType::kQ4_0);
  EXPECT_EQ(up.format, kernels::WeightFormat::kQ4_0);
  kernels::WeightRows rows;
  up.read_rows(5, 7, nullptr, rows);
  EXPECT_EQ(rows.block_row_bytes, up.k / 32 * 18);
  EXPECT_EQ(rows.blocks, up.values.data + 5 * rows.block_row_bytes);
  up.format = kernels::WeightFormat::kF32;
  std::vector<float> all = dequantise(up.values);
  EXPECT_EQ(rows_of(up, 5, 7), std::vector<float>(all.begin() + 5 * up.k, all.begin() + 7 * up.k));
}

TEST(HostWeight, VectorsOfIntegersAreRefusedByName) {
  static const int64_t values[4] = {};
  Checkpoint checkpoint("folder");
  checkpoint.add(
      {{"model.norm.weight", DType::kI64, {4}, "file"}, reinterpret_cast<const std::byte*>(values), 0});
  EXPECT_TRUE(contains(error_of([&] { float_tensor(checkpoint, "model.norm.weight", {4}); }),
                       "tensor 'model.norm.weight' has dtype I64, expected a float type"));
}

// BL-42: the kernels would take the code of a NaN for a number.
TEST(HostWeight, NanOfFp8IsRefusedByName) {
  for (const uint8_t code : {0x7f, 0xff}) {
    std::vector<uint8_t> codes(size_t{16} * 32, 0x38);
    const float scale = 1;
    Checkpoint checkpoint("folder");
    checkpoint.add({{"m.weight", DType::kF8E4M3, {16, 32}, "file"},
                    reinterpret_cast<const std::byte*>(codes.data()),
                    0});
    checkpoint.add(
        {{"m.weight_scale", DType::kF32, {1}, "file"}, reinterpret_cast<const std::byte*>(&scale), 0});
    ModelConfig config;
    config.origin = "config.json";
    config.quantization = std::make_shared<nlohmann::json>(nlohmann::json{{"quant_method", "fp8"}});
    const HostWeight weight = linear_weight(checkpoint, config, "m", 16, 32);
    std::vector<float> scratch(size_t{16} * 32);
    kernels::WeightRows rows;
    weight.read_rows(0, 16, scratch.data(), rows);
    EXPECT_EQ(rows.q[0], 0x38);
    codes[5 * 32 + 7] = code;
    EXPECT_TRUE(contains(error_of([&] { weight.read_rows(0, 16, scratch.data(), rows); }),
                         "tensor 'm.weight' holds a NaN"));
  }
}

TEST(HostWeight, UnknownQuantisationIsRefused) {
  Checkpoint checkpoint = open_safetensors(golden("quantised/qwen3-awq-g32"));
  ModelConfig config;
  config.origin = "config.json";
  config.quantization = std::make_shared<nlohmann::json>(nlohmann::json{{"quant_method", "banana"}});
  EXPECT_TRUE(
      contains(error_of([&] { linear_weight(checkpoint, config, "model.layers.0.mlp.up_proj", 256, 128); }),
               "'banana' is not supported"));
}

TEST(Dummy, TensorsOnDemand) {
  ModelConfig config;
  config.origin = "config.json";
  Checkpoint checkpoint = dummy_checkpoint(config);
  EXPECT_EQ(float_tensor(checkpoint, "norm.weight", {3}), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(float_tensor(checkpoint, "q.bias", {2}), (std::vector<float>{0, 0}));
  std::vector<float> w = float_tensor(checkpoint, "q.weight", {256, 256});
  double sum = 0, squares = 0;
  for (float x : w) {
    ASSERT_LE(std::abs(x), 0.0201f);
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum / w.size(), 0, 3e-4);
  EXPECT_NEAR(std::sqrt(squares / w.size()), 0.02 / std::sqrt(3.0), 2e-4);
  EXPECT_NE(w, float_tensor(checkpoint, "k.weight", {256, 256}));
  Checkpoint again = dummy_checkpoint(config);
  EXPECT_EQ(w, float_tensor(again, "q.weight", {256, 256}));
  // Longer than the buffer behind it, at no cost.
  TensorView large = checkpoint.require("lm_head.weight", {1 << 20, 4096});
  EXPECT_NE(large.as<uint16_t>()[(int64_t{1} << 32) - 1], 0);
  EXPECT_TRUE(checkpoint.finish().empty());
}

}  // namespace
}  // namespace octavo
