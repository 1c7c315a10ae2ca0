#include "load/quant/scheme.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "load/hf_config.h"

namespace octavo {
namespace {

using nlohmann::json;

std::string golden(const std::string& name) {
  return std::string(OCTAVO_SHARED_DIR) + "/golden/quantised/" + name;
}

QuantScheme scheme_of(const std::string& folder, const std::string& layer) {
  const ModelConfig config = load_config(golden(folder));
  QuantScheme scheme;
  EXPECT_TRUE(find_scheme(*config.quantization, config.origin, layer, scheme));
  return scheme;
}

TEST(Scheme, NamesLayers) {
  EXPECT_TRUE(names_layer("lm_head", "lm_head"));
  EXPECT_TRUE(names_layer("self_attn.o_proj", "model.layers.0.self_attn.o_proj"));
  EXPECT_FALSE(names_layer("attn.o_proj", "model.layers.0.self_attn.o_proj"));
  EXPECT_THROW(names_layer("re:(", "x"), Error);
  EXPECT_TRUE(names_layer("re:.*layers\\.1\\.mlp\\.down_proj$", "model.layers.1.mlp.down_proj"));
  EXPECT_FALSE(names_layer("re:.*layers\\.1\\.mlp\\.down_proj$", "model.layers.11.mlp.down_proj"));
  EXPECT_FALSE(names_layer("re:layers", "model.layers.1"));  // re.match is anchored at the start
}

// std::regex would recurse for each of these until the stack ends, or backtrack for years.
TEST(Scheme, RefusesExpressionsThatNeverEnd) {
  const std::string prefix = "model.layers.0.self_attn.q_projection";
  EXPECT_THROW(names_layer("re:(([a-z0-9_.]+)*)*[A-Z]", prefix), Error);
  EXPECT_THROW(names_layer("re:" + std::string(100'000, '(') + std::string(100'000, ')'), prefix), Error);
  EXPECT_THROW(names_layer("re:(?:(?:a{1000}){1000}){1000}", prefix), Error);
  EXPECT_FALSE(names_layer("re:" + std::string(10'000, 'a'), prefix));
}

TEST(Scheme, ReadsPublishedConfigs) {
  using kernels::WeightFormat;
  const std::string layer = "model.layers.0.mlp.up_proj";
  EXPECT_EQ(scheme_of("llama-w8a8", layer).format, WeightFormat::kW8A8);
  EXPECT_EQ(scheme_of("llama-w8a8-static-asym", layer).activations, QuantScheme::Activations::kStaticTensor);
  EXPECT_FALSE(scheme_of("llama-w8a8-static-asym", layer).activations_symmetric);
  EXPECT_EQ(scheme_of("llama-w4a8-g32-packed", layer).format, WeightFormat::kW4A8);
  EXPECT_EQ(scheme_of("llama-w4a16-asym-g32", layer).group, 32);
  EXPECT_FALSE(scheme_of("llama-w4a16-asym-g32", layer).symmetric);
  EXPECT_EQ(scheme_of("qwen3-awq-g32", layer).format, WeightFormat::kW4A16);
  EXPECT_EQ(scheme_of("qwen3-fp8-dynamic", layer).format, WeightFormat::kFP8);
  QuantScheme scheme;
  const ModelConfig config = load_config(golden("llama-w4a16-g128-ignore"));
  EXPECT_FALSE(find_scheme(*config.quantization, config.origin, "model.layers.1.mlp.down_proj", scheme));
  EXPECT_FALSE(find_scheme(*config.quantization, config.origin, "model.layers.0.self_attn.o_proj", scheme));
  EXPECT_FALSE(find_scheme(*config.quantization, config.origin, "lm_head", scheme));
}

TEST(Scheme, RefusesWhatItDoesNotKnow) {
  QuantScheme scheme;
  EXPECT_THROW(find_scheme(json{{"quant_method", "aqlm"}}, "f", "m", scheme), Error);
  EXPECT_THROW(find_scheme(json{{"quant_method", "gptq"}, {"bits", 3}}, "f", "m", scheme), Error);
  EXPECT_THROW(find_scheme(json{{"quant_method", "awq"}, {"version", "gemv"}}, "f", "m", scheme), Error);
  EXPECT_THROW(find_scheme(json{{"quant_method", "compressed-tensors"}}, "f", "m", scheme), Error);
  for (const json& broken :
       {json({0, 128}), json({128, INT64_MAX}), json({UINT64_MAX, 128}), json({128}), json("x")})
    EXPECT_THROW(find_scheme(json{{"quant_method", "fp8"}, {"weight_block_size", broken}}, "f", "m", scheme),
                 Error)
        << broken;
}

TEST(Scheme, RefusesBrokenBlockStructures) {
  auto block = [](json structure) {
    json weights = {{"num_bits", 8}, {"type", "float"}, {"strategy", "block"}};
    if (!structure.is_null()) weights["block_structure"] = structure;
    return json{{"quant_method", "compressed-tensors"},
                {"config_groups", {{"g", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  };
  QuantScheme scheme;
  EXPECT_TRUE(find_scheme(block({128, 64}), "f", "m", scheme));
  EXPECT_EQ(scheme.group_rows, 128);
  EXPECT_EQ(scheme.group, 64);
  for (const json& broken :
       {json(), json("x"), json({0, 128}), json({128, -1}), json({128}), json({128, 1.5})})
    EXPECT_THROW(find_scheme(block(broken), "f", "m", scheme), Error) << broken;
}

/// A checkpoint of one GPTQ or AWQ layer "m" of 16 outputs and 32 inputs in one group.
struct PackedLayer {
  std::vector<uint32_t> words = std::vector<uint32_t>(256, 0x88888888u);
  std::vector<float> scales = std::vector<float>(64, 0.5f);
  bool awq = false;
  DType qweight = DType::kI32, qzeros = DType::kI32;
  bool with_zeros = true;
  std::string checkpoint_format = "gptq";

  std::string error(int64_t k = 32) {
    try {
      load(k);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  HostWeight load(int64_t k = 32) {
    Checkpoint out("folder");
    auto add = [&](const char* name, DType dtype, const Shape& shape, const void* data) {
      out.add({{std::string("m.") + name, dtype, shape, "file"}, static_cast<const std::byte*>(data), 0});
    };
    add("qweight", qweight, awq ? Shape{k, 2} : Shape{k / 8, 16}, words.data());
    if (with_zeros) add("qzeros", qzeros, {1, 2}, words.data());
    add("scales", DType::kF32, {1, 16}, scales.data());
    ModelConfig config;
    config.origin = "config.json";
    config.quantization = std::make_shared<json>(json{{"quant_method", awq ? "awq" : "gptq"},
                                                      {"bits", 4},
                                                      {"group_size", -1},
                                                      {"checkpoint_format", checkpoint_format}});
    return linear_weight(out, config, "m", 16, k);
  }
};

TEST(HostWeight, PackedWordsAndScalesAreChecked) {
  for (bool awq : {false, true}) {
    auto layer = [&] {
      PackedLayer out;
      out.awq = awq;
      return out;
    };
    EXPECT_EQ(layer().error(), "no error");
    PackedLayer wrong_type = layer(), wrong_zeros = layer(), no_zeros = layer(), no_number = layer();
    wrong_type.qweight = DType::kI8;
    EXPECT_EQ(wrong_type.error(), "folder: tensor 'm.qweight' is I8, expected I32");
    wrong_zeros.qzeros = DType::kI16;
    EXPECT_EQ(wrong_zeros.error(), "folder: tensor 'm.qzeros' is I16, expected I32");
    no_zeros.with_zeros = false;
    EXPECT_EQ(no_zeros.error(), "folder: tensor 'm.qzeros' is missing");
    no_number.scales[3] = std::nanf("");  // BL-42
    EXPECT_EQ(no_number.error(), "folder: tensor 'm.scales' holds a scale that is not finite");
  }
  EXPECT_EQ(PackedLayer().error(36), "folder: 'm' has 36 inputs, which are not whole words");
}

// Zeros of 8 are the centre; GPTQ's first format means 9 by them.
TEST(HostWeight, StoredZeros) {
  PackedLayer gptq, gptq_v2, awq;
  gptq_v2.checkpoint_format = "gptq_v2";
  awq.awq = true;
  const HostWeight shifted = gptq.load();
  ASSERT_TRUE(shifted.zeros.data);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(shifted.zeros.as<int8_t>()[i], 1);
  EXPECT_FALSE(gptq_v2.load().zeros.data);
  EXPECT_FALSE(awq.load().zeros.data);
}

// The same numbers stored in two ways give the same canonical rows.
TEST(HostWeight, PackedAndPlainFourBitsAgree) {
  const std::string layer = "model.layers.1.mlp.down_proj";
  Checkpoint plain = open_safetensors(golden("llama-w4a8-g32")),
             packed = open_safetensors(golden("llama-w4a8-g32-packed"));
  const HostWeight a = linear_weight(plain, load_config(golden("llama-w4a8-g32")), layer, 128, 256);
  const HostWeight b = linear_weight(packed, load_config(golden("llama-w4a8-g32-packed")), layer, 128, 256);
  std::vector<float> scratch_a(128 * 256), scratch_b(128 * 256);
  kernels::WeightRows rows_a, rows_b;
  a.read_rows(0, 128, scratch_a.data(), rows_a);
  b.read_rows(0, 128, scratch_b.data(), rows_b);
  EXPECT_EQ(a.group, 32);
  EXPECT_EQ(0, memcmp(rows_a.q, rows_b.q, 128 * 256));
  EXPECT_EQ(0, memcmp(rows_a.scales, rows_b.scales, 128 * 8 * sizeof(float)));
}

// Act-order: rows come sorted by group, and dequantised rows come back in the order of the inputs.
TEST(HostWeight, ActOrderIsUndoneByDequantising) {
  const std::string folder = golden("llama-gptq-g32-actorder"), layer = "model.layers.0.mlp.up_proj";
  Checkpoint checkpoint = open_safetensors(folder);
  HostWeight weight = linear_weight(checkpoint, load_config(folder), layer, 256, 128);
  ASSERT_EQ(weight.permutation.size(), 128u);
  std::vector<float> scratch(128), dequantised(128);
  kernels::WeightRows integer, plain;
  weight.read_rows(7, 8, scratch.data(), integer);
  std::vector<int8_t> q(integer.q, integer.q + 128);
  std::vector<float> scales(integer.scales, integer.scales + 4);
  weight.format = kernels::WeightFormat::kF32;
  weight.read_rows(7, 8, dequantised.data(), plain);
  for (int j = 0; j < 128; ++j)
    EXPECT_EQ(plain.values[weight.permutation[j]], static_cast<float>(q[j]) * scales[j / 32]);
}

}  // namespace
}  // namespace octavo
