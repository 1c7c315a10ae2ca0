#include "load/quant/compressed_writer.h"

#include <gtest/gtest.h>

#include <random>

#include "load/hf_config.h"
#include "load/quant/scheme.h"
#include "load/test_files.h"

namespace octavo::quant {
namespace {

using test::contains;
using test::error_of;
using test::golden;
using test::TempFolder;

// What is written is read by our loader as the same codes and scales.
TEST(CompressedWriter, LoaderReadsTheSameCodes) {
  struct Case {
    const char* scheme;
    int64_t group;
  };
  for (const Case& c : {Case{"w8a8", 0}, Case{"w4a8", 32}, Case{"w4a8", 0}, Case{"w4a16", 64},
                        Case{"w4a16", 0}, Case{"fp8", 0}}) {
    const OutputScheme& scheme = output_scheme(c.scheme);
    const int64_t n = 24, k = 192, groups = c.group ? k / c.group : 1;
    std::mt19937 random(5);
    std::vector<float> x(n * k), scales(n * groups);
    for (float& value : x) value = std::normal_distribution<float>()(random);
    std::vector<int8_t> q(n * k);
    for (int64_t row = 0; row < n; ++row)
      ASSERT_TRUE(round_row({scheme.element, c.group, Scales::kMinMax, ScaleFormat::kBF16},
                            x.data() + row * k, k, q.data() + row * k, scales.data() + row * groups));
    TempFolder folder;
    write_safetensors(folder.path(),
                      {{output_tensors(scheme, "model.layers.0.mlp.up_proj", n, k, c.group),
                        [&](const std::vector<std::byte*>& out) {
                          store(scheme, n, k, c.group, q.data(), scales.data(), out);
                        }}},
                      1 << 30, [](size_t) {});
    ModelConfig config;
    config.origin = "config.json";
    config.quantization = std::make_shared<nlohmann::json>(quantization_config(scheme, c.group, {"lm_head"}));
    Checkpoint checkpoint = open_safetensors(folder.path());
    const HostWeight weight = linear_weight(checkpoint, config, "model.layers.0.mlp.up_proj", n, k);
    ASSERT_TRUE(weight.reader);
    EXPECT_EQ(weight.group, c.group ? c.group : k);
    std::vector<float> scratch(n * k);
    kernels::WeightRows rows;
    weight.read_rows(0, n, scratch.data(), rows);
    ASSERT_TRUE(rows.q && rows.scales && !rows.zeros) << c.scheme;
    EXPECT_TRUE(std::equal(q.begin(), q.end(), rows.q)) << c.scheme << " " << c.group;
    EXPECT_TRUE(std::equal(scales.begin(), scales.end(), rows.scales)) << c.scheme << " " << c.group;
    EXPECT_TRUE(checkpoint.unused().empty());
  }
}

/// Drops what says who wrote the file and how.
nlohmann::json essential(nlohmann::json config) {
  for (const char* key : {"version", "sparsity_config", "transform_config", "ignore"}) config.erase(key);
  for (const char* part : {"weights", "input_activations"})
    if (config["config_groups"]["group_0"][part].is_object())
      config["config_groups"]["group_0"][part].erase("observer");
  return config;
}

// The config is what the compressed-tensors library writes.
TEST(CompressedWriter, ConfigIsTheLibrarys) {
  struct Case {
    const char *scheme, *folder;
    int64_t group;
  };
  for (const Case& c : {Case{"w8a8", "llama-w8a8", 0}, Case{"w4a8", "llama-w4a8-g32", 32},
                        Case{"w4a8", "llama-w4a8-channel", 0}, Case{"w4a16", "llama-w4a16-g128-ignore", 128},
                        Case{"w4a16", "llama-w4a16-channel", 0}, Case{"fp8", "llama-fp8-dynamic", 0}}) {
    const ModelConfig want = load_config(golden(std::string("quantised/") + c.folder));
    const nlohmann::json got = quantization_config(output_scheme(c.scheme), c.group, {"lm_head"});
    EXPECT_EQ(essential(got), essential(*want.quantization)) << c.folder;
    EXPECT_EQ(got["ignore"], nlohmann::json({"lm_head"}));
  }
  EXPECT_TRUE(contains(error_of([] { output_scheme("w2a2"); }), "w8a8, w4a8, w4a16, fp8"));
}

}  // namespace
}  // namespace octavo::quant
