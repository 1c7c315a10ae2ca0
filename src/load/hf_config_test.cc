#include "load/hf_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load/test_files.h"

namespace octavo {
namespace {

using nlohmann::json;
using test::contains;
using test::error_of;
using test::golden;

json llama() {
  return json::parse(R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":64,
    "intermediate_size":160,"num_attention_heads":4,"num_hidden_layers":2,"vocab_size":640,
    "max_position_embeddings":2048})");
}

ModelConfig with(const json& changes) {
  json config = llama();
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return parse_config(config, "config.json");
}

TEST(HfConfig, GoldenSizes) {
  struct Row {
    const char* name;
    const char* architecture;
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, max_len;
    bool tied, qkv_bias;
  };
  const Row kRows[] = {
      {"opt-pre-f16", "OPTForCausalLM", 72, 3, 6, 6, 12, 200, 517, 512, true, true},
      {"opt-post-proj", "OPTForCausalLM", 64, 2, 4, 4, 16, 176, 512, 512, true, true},
      {"gpt2", "GPT2LMHeadModel", 60, 3, 4, 4, 15, 240, 512, 512, true, true},
      {"llama-mha-f32", "LlamaForCausalLM", 64, 2, 4, 4, 16, 160, 640, 512, false, false},
      {"llama3-rope-sharded", "LlamaForCausalLM", 64, 3, 8, 4, 16, 160, 600, 1024, false, false},
      {"llama-bias-gqa3-tied", "LlamaForCausalLM", 96, 3, 6, 2, 20, 152, 517, 512, true, true},
      {"llama-yarn-gqa7", "LlamaForCausalLM", 84, 2, 7, 1, 16, 168, 512, 512, false, false},
      {"llama-linear-rope", "LlamaForCausalLM", 64, 2, 4, 2, 16, 160, 640, 2048, false, false},
      {"mistral-swa32", "MistralForCausalLM", 64, 3, 4, 2, 24, 136, 640, 1024, false, false},
      {"qwen2-gqa7-tied", "Qwen2ForCausalLM", 112, 2, 7, 1, 16, 176, 576, 1024, true, true},
      {"qwen3-tied", "Qwen3ForCausalLM", 64, 3, 4, 2, 32, 192, 512, 1024, true, false},
      {"qwen3-gqa3-odd", "Qwen3ForCausalLM", 88, 2, 6, 2, 24, 136, 517, 1024, false, false},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    ModelConfig c = load_config(golden(std::string("models/") + row.name));
    EXPECT_EQ(c.architecture, row.architecture);
    EXPECT_EQ(c.hidden, row.hidden);
    EXPECT_EQ(c.layers, row.layers);
    EXPECT_EQ(c.heads, row.heads);
    EXPECT_EQ(c.kv_heads, row.kv_heads);
    EXPECT_EQ(c.head_dim, row.head_dim);
    EXPECT_EQ(c.intermediate, row.intermediate);
    EXPECT_EQ(c.vocab, row.vocab);
    EXPECT_EQ(c.max_model_len, row.max_len);
    EXPECT_EQ(c.tie_word_embeddings, row.tied);
    EXPECT_EQ(c.qkv_bias, row.qkv_bias);
    EXPECT_EQ(c.layer_kinds.size(), static_cast<size_t>(row.layers));
  }
}

TEST(HfConfig, GoldenOptions) {
  ModelConfig opt = load_config(golden("models/opt-post-proj"));
  EXPECT_FALSE(opt.norm_first || opt.final_norm);
  EXPECT_EQ(opt.word_embed_proj_dim, 32);
  EXPECT_EQ(opt.activation, Activation::kRelu);
  EXPECT_EQ(opt.norm, NormKind::kLayerNorm);
  EXPECT_TRUE(opt.learned_positions);
  EXPECT_EQ(load_config(golden("models/opt-pre-f16")).dtype, DType::kF16);
  EXPECT_TRUE(load_config(golden("models/opt-pre-f16")).final_norm);

  ModelConfig gpt2 = load_config(golden("models/gpt2"));
  EXPECT_EQ(gpt2.activation, Activation::kGeluTanh);
  EXPECT_EQ(gpt2.eos_ids, std::vector<int32_t>{511});
  EXPECT_FALSE(gpt2.pad_id);

  ModelConfig bias = load_config(golden("models/llama-bias-gqa3-tied"));
  EXPECT_TRUE(bias.out_bias && bias.mlp_bias);
  EXPECT_EQ(bias.rope.type, RopeType::kDefault);
  EXPECT_EQ(bias.dtype, DType::kBF16);

  ModelConfig mistral = load_config(golden("models/mistral-swa32"));
  for (int layer = 0; layer < 3; ++layer) EXPECT_EQ(mistral.window(layer), 32);
  ModelConfig qwen2 = load_config(golden("models/qwen2-gqa7-tied"));
  EXPECT_EQ(qwen2.window(0), 0);
  EXPECT_EQ(qwen2.window(1), 0);
  EXPECT_EQ(qwen2.rope.theta, 1e6);
  EXPECT_TRUE(load_config(golden("models/qwen3-tied")).qk_norm);
  EXPECT_TRUE(load_config(golden("quantised/qwen3-w8a8")).quantization != nullptr);
}

TEST(HfConfig, GoldenRopes) {
  RopeConfig llama3 = load_config(golden("models/llama3-rope-sharded")).rope;
  EXPECT_EQ(llama3.type, RopeType::kLlama3);
  EXPECT_EQ(llama3.theta, 500000);
  EXPECT_EQ(llama3.factor, 8);
  EXPECT_EQ(llama3.low_freq_factor, 1);
  EXPECT_EQ(llama3.high_freq_factor, 4);
  EXPECT_EQ(llama3.original_max_position, 64);
  RopeConfig yarn = load_config(golden("models/llama-yarn-gqa7")).rope;
  EXPECT_EQ(yarn.type, RopeType::kYarn);
  EXPECT_EQ(yarn.original_max_position, 128);
  EXPECT_NEAR(yarn.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_TRUE(yarn.truncate);
  EXPECT_EQ(load_config(golden("models/llama-linear-rope")).rope.factor, 4);
}

TEST(HfConfig, FamilyDefaultsWhereTheFileIsSilent) {
  auto bare = [](const char* architecture) { return parse_config({{"architectures", {architecture}}}, "c"); };
  ModelConfig llama = bare("LlamaForCausalLM");
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 128);
  EXPECT_EQ(llama.eos_ids, std::vector<int32_t>{2});
  EXPECT_EQ(llama.norm_eps, 1e-6);
  ModelConfig mistral = bare("MistralForCausalLM");
  EXPECT_EQ(mistral.kv_heads, 8);
  EXPECT_EQ(mistral.window(31), 4096);
  EXPECT_EQ(bare("Qwen3ForCausalLM").head_dim, 128);
  EXPECT_TRUE(bare("Qwen2ForCausalLM").eos_ids.empty());
  ModelConfig gpt2 = bare("GPT2LMHeadModel");
  EXPECT_EQ(gpt2.intermediate, 3072);
  EXPECT_EQ(gpt2.vocab, 50257);
  ModelConfig opt = bare("OPTForCausalLM");
  EXPECT_TRUE(opt.norm_first && opt.tie_word_embeddings);
  EXPECT_EQ(opt.word_embed_proj_dim, 768);
  EXPECT_EQ(parse_config({{"model_type", "llama"}}, "c").architecture, "LlamaForCausalLM");
}

// BL-38: every published spelling of rope scaling, and what contradicts itself.
TEST(HfConfig, RopeSpellings) {
  json yarn = {{"factor", 4}, {"original_max_position_embeddings", 512}};
  for (const char* key : {"type", "rope_type"})
    for (const char* where : {"rope_scaling", "rope_parameters"}) {
      json rope = yarn;
      rope[key] = "yarn";
      ModelConfig c = with({{where, rope}});
      EXPECT_EQ(c.rope.type, RopeType::kYarn);
      EXPECT_EQ(c.rope.original_max_position, 512);
      EXPECT_EQ(c.max_model_len, 2048);
    }
  EXPECT_EQ(with({{"rope_scaling", {{"type", "linear"}, {"factor", 3}}}}).max_model_len, 6144);
  EXPECT_EQ(with({{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.5}}}}).max_model_len, 5120);
  EXPECT_EQ(with({{"rope_scaling", nullptr}}).max_model_len, 2048);
  ModelConfig llama3 = with({{"rope_scaling",
                              {{"rope_type", "llama3"},
                               {"factor", 8},
                               {"low_freq_factor", 1},
                               {"high_freq_factor", 4},
                               {"original_max_position_embeddings", 256}}}});
  EXPECT_EQ(llama3.max_model_len, 2048);
  EXPECT_EQ(with({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}}}).rope.theta, 5e5);
  EXPECT_EQ(with({{"rope_theta", 1e6}}).rope.theta, 1e6);
  ModelConfig layers =
      with({{"rope_parameters",
             {{"full_attention", {{"rope_type", "linear"}, {"factor", 8}, {"rope_theta", 1e6}}},
              {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}});
  EXPECT_EQ(layers.rope.theta, 1e6);
  EXPECT_EQ(layers.rope.factor, 8);
  EXPECT_EQ(layers.rope_sliding.value().theta, 1e4);
  // The plain YaRN recipe without an attention factor, with mscale, and with the factor left to be derived.
  json mscale = {{"type", "yarn"}, {"factor", 40}, {"mscale", 0.707}, {"mscale_all_dim", 0.707}};
  EXPECT_DOUBLE_EQ(with({{"rope_scaling", mscale}}).rope.attention_factor, 1);
  json derived = {{"type", "yarn"}, {"original_max_position_embeddings", 512}};
  EXPECT_EQ(with({{"rope_scaling", derived}}).rope.factor, 4);
}

TEST(HfConfig, BadRopesAreRefused) {
  auto refused = [](const json& changes) { return error_of([&] { with(changes); }); };
  auto scaling = [&](const json& rope) { return refused({{"rope_scaling", rope}}); };
  EXPECT_TRUE(contains(scaling({{"rope_type", "banana"}, {"factor", 2}}),
                       "unknown rope type 'banana'; supported: default, linear, dynamic, llama3, yarn"));
  EXPECT_TRUE(contains(scaling({{"type", "yarn"}, {"factor", 0}}), "factor: 0, expected a number in [1"));
  EXPECT_TRUE(contains(scaling({{"type", "linear"}, {"factor", -1}}), "factor"));
  EXPECT_TRUE(contains(scaling({{"type", "linear"}, {"factor", "4"}}), "factor: \"4\""));
  EXPECT_TRUE(contains(scaling({{"type", "linear"}}), "factor: missing"));
  EXPECT_TRUE(contains(scaling({{"type", "linear"}, {"rope_type", "yarn"}, {"factor", 2}}), "contradict"));
  EXPECT_TRUE(contains(scaling({{"rope_type", 7}}), "expected a string"));
  EXPECT_TRUE(contains(scaling("yarn"), "expected a JSON object"));
  EXPECT_TRUE(contains(scaling({{"rope_type", "llama3"}, {"factor", 8}}), "low_freq_factor: missing"));
  EXPECT_TRUE(
      contains(refused({{"rope_theta", 1e4}, {"rope_parameters", {{"rope_theta", 1e6}}}}), "contradict"));
  EXPECT_TRUE(contains(refused({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}},
                                {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4}}}}),
                       "contradict"));
  EXPECT_TRUE(contains(refused({{"rope_theta", 0}}), "rope_theta"));
}

TEST(HfConfig, BadValuesAreRefused) {
  struct Bad {
    json change;
    const char* message;
  };
  const Bad kBad[] = {
      {{{"architectures", {"BananaForCausalLM"}}},
       "architecture 'BananaForCausalLM' is not supported; supported: GPT2"},
      {{{"architectures", json::array()}}, "architectures"},
      {{{"architectures", "LlamaForCausalLM"}}, "architectures"},
      {{{"num_attention_heads", 0}}, "num_attention_heads: 0, expected an integer in [1"},
      {{{"num_attention_heads", 7}}, "not a multiple"},
      {{{"num_key_value_heads", 3}}, "not a multiple of num_key_value_heads 3"},
      {{{"hidden_size", -64}}, "hidden_size: -64"},
      {{{"hidden_size", 1e30}}, "hidden_size"},
      {{{"hidden_size", 64.5}}, "hidden_size"},
      {{{"hidden_size", "64"}}, "hidden_size"},
      {{{"num_hidden_layers", 18446744073709551615u}}, "num_hidden_layers"},
      {{{"vocab_size", int64_t{1} << 40}}, "vocab_size"},
      {{{"head_dim", 15}}, "rotary dimensions"},
      {{{"rms_norm_eps", -1}}, "rms_norm_eps"},
      {{{"hidden_act", "banana"}}, "unknown 'banana'; supported: silu"},
      {{{"torch_dtype", "int3"}}, "unknown 'int3'"},
      {{{"eos_token_id", "2"}}, "eos_token_id"},
      {{{"attention_bias", 1}}, "attention_bias"},
      {{{"text_config", 3}}, "text_config"},
  };
  for (const Bad& bad : kBad)
    EXPECT_TRUE(contains(error_of([&] { with(bad.change); }), bad.message)) << bad.change;
  EXPECT_TRUE(
      contains(error_of([] { parse_config(json::array(), "f.json"); }), "f.json: expected a JSON object"));
  test::TempFolder folder;
  EXPECT_TRUE(contains(error_of([&] { load_config(folder.path()); }), "has no config.json"));
  folder.write("config.json", "{\"a\":" + std::string(100000, '['));
  EXPECT_TRUE(contains(error_of([&] { load_config(folder.path()); }), "nested deeper"));
  folder.write("config.json", "{");
  EXPECT_TRUE(contains(error_of([&] { load_config(folder.path()); }), "config.json: not valid JSON"));
}

TEST(HfConfig, WindowsByLayer) {
  json config = llama();
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["num_key_value_heads"] = 2;
  config["num_hidden_layers"] = 3;
  config["use_sliding_window"] = true;
  config["sliding_window"] = 128;
  config["max_window_layers"] = 1;
  ModelConfig by_rule = parse_config(config, "c");
  EXPECT_EQ(by_rule.window(0), 0);
  EXPECT_EQ(by_rule.window(2), 128);
  config["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  ModelConfig by_list = parse_config(config, "c");
  EXPECT_EQ(by_list.window(0), 128);
  EXPECT_EQ(by_list.window(2), 0);
  config["layer_types"] = {"full_attention"};
  EXPECT_TRUE(contains(error_of([&] { parse_config(config, "c"); }), "layer_types"));
  config["layer_types"] = {"full_attention", "banana", "full_attention"};
  EXPECT_TRUE(contains(error_of([&] { parse_config(config, "c"); }), "unknown 'banana'"));
}

// Their q, k and v have hidden rows each; a forward for other heads would write past its buffers.
TEST(HfConfig, FamiliesWithoutGroupedQueriesRefuseOtherHeads) {
  for (const char* architecture : {"OPTForCausalLM", "GPT2LMHeadModel"}) {
    json config = {{"architectures", {architecture}}, {"hidden_size", 64}, {"num_attention_heads", 4}};
    EXPECT_EQ(parse_config(config, "c").head_dim, 16);
    json grouped = config, narrow = config;
    grouped["num_key_value_heads"] = 2;
    narrow["head_dim"] = 8;
    EXPECT_TRUE(
        contains(error_of([&] { parse_config(grouped, "c"); }), "num_key_value_heads: 2, expected 4"));
    EXPECT_TRUE(
        contains(error_of([&] { parse_config(narrow, "c"); }), "head_dim: 8, expected hidden_size 64"));
  }
}

TEST(HfConfig, SlidingLayersHaveWholeRotaryPairsToo) {
  json config = llama();
  config["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}}},
      {"sliding_attention", {{"rope_type", "default"}, {"partial_rotary_factor", 0.2}}}};  // 3 of 16
  EXPECT_TRUE(contains(error_of([&] { parse_config(config, "c"); }), "3 rotary dimensions"));
}

TEST(HfConfig, NestedTextConfig) {
  json config = {
      {"architectures", {"LlamaForCausalLM"}}, {"text_config", llama()}, {"tie_word_embeddings", true}};
  config["text_config"].erase("architectures");
  ModelConfig c = parse_config(config, "c");
  EXPECT_EQ(c.hidden, 64);
  EXPECT_TRUE(c.tie_word_embeddings);
}

// BL-13: each file alone misses ids.
TEST(HfConfig, StopIdsAreTheUnion) {
  test::TempFolder folder;
  json config = llama();
  config["eos_token_id"] = 5;
  folder.write("config.json", config.dump());
  folder.write(
      "generation_config.json",
      R"({"eos_token_id":[7,6],"temperature":0.6,"top_p":0.9,"top_k":20,"max_new_tokens":9,"do_sample":true})");
  folder.write(
      "tokenizer_config.json",
      R"({"eos_token":{"content":"<e>"},"added_tokens_decoder":{"8":{"content":"<e>"},"9":{"content":"<b>"}}})");
  ModelConfig c = load_config(folder.path());
  EXPECT_EQ(stop_ids(c), (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(c.generation.temperature, 0.6);
  EXPECT_EQ(c.generation.top_k, 20);
  EXPECT_FALSE(c.generation.min_p);
  EXPECT_EQ(c.generation.max_new_tokens, 9);
  folder.write("generation_config.json", R"({"temperature":"hot"})");
  EXPECT_TRUE(contains(error_of([&] { load_config(folder.path()); }), "generation_config.json: temperature"));
}

}  // namespace
}  // namespace octavo
