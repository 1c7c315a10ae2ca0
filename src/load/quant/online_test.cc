#include "load/quant/online.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load/test_files.h"

namespace octavo {
namespace {

using kernels::WeightFormat;
using test::contains;
using test::error_of;
using test::golden;

OnlineQuantisation of(const char* flag) { return *online_quantisation(flag, {}, ModelConfig{}); }

HostWeight up_proj(Checkpoint& checkpoint, const ModelConfig& config) {
  return linear_weight(checkpoint, config, "model.layers.0.mlp.up_proj", config.intermediate, config.hidden);
}

TEST(Online, RowsAreTheRoundedOnes) {
  for (const char* name : {"models/llama-mha-f32", "gguf/llama-f16.gguf"}) {
    Checkpoint checkpoint = open_checkpoint(golden(name));
    const ModelConfig config = load_model_config(golden(name));
    const HostWeight plain = up_proj(checkpoint, config);
    const int64_t k = plain.k, rows = 5;
    std::vector<float> scratch(rows * k), values(rows * k);
    const float* want = plain.read_plain(3, 3 + rows, values.data());
    for (const char* flag : {"int8", "int4", "fp8", "mxfp4"}) {
      HostWeight weight = plain;
      quantise_online(of(flag), "gate_up_proj", weight);
      EXPECT_TRUE(weight.runs_as_stored());
      const int64_t groups = k / weight.group;
      kernels::WeightRows got;
      weight.read_rows(3, 3 + rows, scratch.data(), got);
      ASSERT_TRUE(got.q && got.scales && !got.values && !got.zeros);
      double error = 0, norm = 0;
      for (int64_t i = 0; i < rows * k; ++i) {
        const float scale = got.scales[i / k * groups + i % k / weight.group];
        const double d = quant::decoded(weight.element, got.q[i]) * scale - want[i];
        error += d * d, norm += double{want[i]} * want[i];
      }
      EXPECT_LT(std::sqrt(error / norm), std::string(flag).ends_with("4") ? 0.13 : 0.03)
          << name << " " << flag;
      EXPECT_GT(error, 0);
      // Decoded, as where no kernel runs the format, it is the same numbers.
      weight.format = WeightFormat::kF32;
      std::vector<float> decoded(rows * k);
      std::vector<float> first(got.scales, got.scales + 1);
      const float expected = quant::decoded(weight.element, got.q[0]) * got.scales[0];
      weight.read_rows(3, 3 + rows, decoded.data(), got);
      EXPECT_EQ(got.values[0], expected);
    }
  }
}

TEST(Online, TheIgnoreListIsHonoured) {
  Checkpoint checkpoint = open_checkpoint(golden("models/llama-mha-f32"));
  const ModelConfig config = load_model_config(golden("models/llama-mha-f32"));
  auto quantised = [&](const OnlineQuantisation& online, const char* role) {
    HostWeight weight = up_proj(checkpoint, config);
    quantise_online(online, role, weight);
    return weight.reader != nullptr;
  };
  OnlineQuantisation online = of("int8");
  EXPECT_TRUE(quantised(online, "gate_up_proj"));
  EXPECT_FALSE(quantised(online, "lm_head"));  // a tied head has another tensor's name
  online = *online_quantisation("int8", {{"ignore", {"re:.*layers\\.0\\."}}}, config);
  EXPECT_FALSE(quantised(online, "gate_up_proj"));
  online = *online_quantisation("int8", {{"ignore", nlohmann::json::array()}}, config);
  EXPECT_TRUE(quantised(online, "lm_head"));
  online = *online_quantisation("int8", {{"ignore", {"mlp.up_proj"}}}, config);
  EXPECT_FALSE(quantised(online, "gate_up_proj"));
}

TEST(Online, RefusesWhatContradicts) {
  const ModelConfig plain;
  ModelConfig awq;
  awq.origin = "config.json";
  awq.quantization = std::make_shared<nlohmann::json>(nlohmann::json{{"quant_method", "awq"}});
  EXPECT_FALSE(online_quantisation("", {}, plain));
  EXPECT_FALSE(online_quantisation("awq", {}, awq));
  EXPECT_FALSE(online_quantisation("awq_marlin", {}, awq));
  EXPECT_TRUE(contains(error_of([&] { online_quantisation("gptq", {}, awq); }), "is quantised by 'awq'"));
  EXPECT_TRUE(contains(error_of([&] { online_quantisation("awq", {}, plain); }), "is not quantised"));
  EXPECT_TRUE(contains(error_of([&] { online_quantisation("int3", {}, plain); }), "expected int8, int4"));
  EXPECT_TRUE(contains(error_of([&] {
                         online_quantisation("int8", {{"ignore", "x"}}, plain);
                       }),
                       "list of names"));
  EXPECT_TRUE(contains(error_of([&] { online_quantisation("int8", {{"linear", 1}}, plain); }), "'linear'"));
  EXPECT_TRUE(contains(error_of([&] {
                         online_quantisation("int8", {{"ignore", {"re:("}}}, plain);
                       }),
                       "'(' does not compile"));
  EXPECT_THROW(online_quantisation("int8", nlohmann::json::array(), plain), Error);

  for (const char* name : {"quantised/llama-w4a16-g32", "gguf/llama-q4_0.gguf"}) {
    Checkpoint checkpoint = open_checkpoint(golden(name));
    HostWeight weight = up_proj(checkpoint, load_model_config(golden(name)));
    EXPECT_TRUE(contains(error_of([&] { quantise_online(of("int8"), "gate_up_proj", weight); }),
                         "quantised already"));
  }
  Checkpoint checkpoint = open_checkpoint(golden("quantised/llama-w8a8"));
  HostWeight same = up_proj(checkpoint, load_model_config(golden("quantised/llama-w8a8")));
  const HostWeight::Reader reader = same.reader;
  quantise_online(of("int8"), "gate_up_proj", same);
  EXPECT_EQ(same.reader, reader);
}

TEST(Online, OddWidthsAndBadValuesAreErrors) {
  HostWeight weight;
  weight.name = "a.b.weight";
  weight.n = 8;
  weight.k = weight.group = 40;
  std::vector<float> values(8 * 40, 0.5f);
  weight.values = {DType::kF32, {8, 40}, reinterpret_cast<const std::byte*>(values.data())};
  HostWeight odd = weight;
  EXPECT_TRUE(contains(error_of([&] { quantise_online(of("int4"), "b", odd); }), "'a.b' has 40 inputs"));
  quantise_online(of("int8"), "b", weight);
  values[4 * 40 + 1] = NAN;
  std::vector<float> scratch(8 * 40);
  kernels::WeightRows rows;
  EXPECT_TRUE(
      contains(error_of([&] { weight.read_rows(0, 8, scratch.data(), rows); }), "not finite, in row 4"));
}

}  // namespace
}  // namespace octavo
