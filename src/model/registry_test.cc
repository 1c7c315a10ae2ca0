// Loading: what is missing, what is ignored, config variants that mean the same, weights that are broken.
#include "model/registry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "model/rope.h"
#include "model/testing.h"

namespace octavo {
namespace {

using kernels::KvFormat;
using kernels::WeightFormat;
using nlohmann::json;

json tiny_llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 32},
          {"intermediate_size", 48},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 96},
          {"max_position_embeddings", 2048},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", true},
          {"rope_theta", 10000.0}};
}

/// Changes a tensor that a model asks for.
using Edit = std::function<void(const std::string& name, const Shape& shape, std::vector<float>& values)>;

/// Random weights from the names, large enough that attention and MLP matter: normal-ish with deviation 3 /
/// sqrt(k).
Checkpoint random_checkpoint(Edit edit = {}) {
  Checkpoint out("test weights");
  auto store = std::make_shared<std::vector<std::vector<float>>>();
  out.keep(store);
  out.set_generator([store, edit](const std::string& name, const Shape& shape) -> TensorView {
    std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
    std::vector<float> values(shape.elements(), 1.0f);
    if (shape.rank == 2)
      for (float& v : values)
        v = std::uniform_real_distribution<float>(-3, 3)(random) / std::sqrt(static_cast<float>(shape[1]));
    if (edit) edit(name, shape, values);
    store->push_back(std::move(values));
    return {DType::kF32, shape, reinterpret_cast<const std::byte*>(store->back().data())};
  });
  return out;
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Loaded {
  explicit Loaded(const json& config_json, Edit edit = {}, LoadOptions options = {WeightFormat::kF32})
      : machine(kernels::select()),
        config(parse_config(config_json, "config.json")),
        model(load_model(config, random_checkpoint(std::move(edit)), machine.ctx, options)),
        runner(*model, machine.ctx, KvFormat::kF32, 16, 300, 1) {}
  /// Logits of the last of `length` tokens.
  std::vector<float> logits(const std::vector<int32_t>& ids) {
    TestSequence s{ids};
    std::vector<float> out = runner.step({{&s, static_cast<int>(ids.size()), TestRunner::Work::kLast}});
    runner.release(s);
    return out;
  }
  TestMachine machine;
  ModelConfig config;
  std::unique_ptr<Model> model;
  TestRunner runner;
};

std::vector<int32_t> some_ids(int count) {
  std::vector<int32_t> ids(count);
  for (int i = 0; i < count; ++i) ids[i] = (i * 37 + i / 7) % 96;
  return ids;
}

TEST(RegistryTest, AnUnknownArchitectureIsRefusedWithAListOfKnownOnes) {
  TestMachine machine(kernels::select());
  ModelConfig config = parse_config(tiny_llama(), "config.json");
  config.architecture = "BananaForCausalLM";
  const std::string message = error_of([&] { load_model(config, random_checkpoint(), machine.ctx); });
  for (const char* part :
       {"BananaForCausalLM", "config.json", "LlamaForCausalLM", "OPTForCausalLM", "Qwen3ForCausalLM"})
    EXPECT_TRUE(contains(message, part)) << message;
}

TEST(RegistryTest, EveryConfigFamilyHasAModel) { EXPECT_EQ(supported_models(), supported_architectures()); }

TEST(RegistryTest, AllMissingTensorsAreListedAtOnce) {
  TestMachine machine(kernels::select());
  Checkpoint some("folder");  // has the embedding only
  std::vector<float> table(96 * 32, 0.5f);
  some.add({{"model.embed_tokens.weight", DType::kF32, {96, 32}, "file"},
            reinterpret_cast<const std::byte*>(table.data()),
            0});
  json small = tiny_llama();
  small["num_hidden_layers"] = 1;
  const std::string message =
      error_of([&] { load_model(parse_config(small, "config.json"), std::move(some), machine.ctx); });
  for (const char* part : {"folder", "10 tensors", "model.layers.0.self_attn.q_proj.weight",
                           "model.norm.weight", "model.layers.0.mlp.down_proj.weight"})
    EXPECT_TRUE(contains(message, part)) << message;
}

TEST(RegistryTest, UnusedTensorsAreReportedExceptKnownHarmlessOnes) {
  TestMachine machine(kernels::select());
  Checkpoint checkpoint = random_checkpoint();
  static const float values[64] = {};
  for (const char* name :
       {"model.layers.0.self_attn.rotary_emb.inv_freq", "lm_head.weight", "model.layers.7.junk.weight"})
    checkpoint.add({{name, DType::kF32, {64}, "file"}, reinterpret_cast<const std::byte*>(values), 0});
  auto model = load_model(parse_config(tiny_llama(), "config.json"), std::move(checkpoint), machine.ctx);
  EXPECT_EQ(model->info().ignored_tensors, std::vector<std::string>{"model.layers.7.junk.weight"});
}

TEST(RegistryTest, InfoDescribesTheModel) {
  json config = tiny_llama();
  config["architectures"] = {"MistralForCausalLM"};
  config["model_type"] = "mistral";
  config["sliding_window"] = 64;
  Loaded loaded(config);
  const ModelInfo& info = loaded.model->info();
  EXPECT_EQ(info.architecture, "MistralForCausalLM");
  EXPECT_EQ(info.vocab, 96);
  EXPECT_EQ(info.layers, 2);
  EXPECT_EQ(info.kv_heads, 2);
  EXPECT_EQ(info.head_dim, 8);
  EXPECT_EQ(info.max_model_len, loaded.config.max_model_len);
  ASSERT_EQ(info.kv_groups.size(), 1u);
  EXPECT_EQ(info.kv_groups[0].window, 64);
  EXPECT_EQ(info.kv_groups[0].layers, 2);
  ASSERT_EQ(info.kernels.size(), 5u);
  EXPECT_TRUE(info.kernels[0].starts_with("qkv_proj x2: f32")) << info.kernels[0];
  EXPECT_GT(info.weight_bytes, (2 * (32 * 64 + 32 * 32 + 3 * 32 * 48) + 96 * 32) * sizeof(float) - 1);
}

TEST(RegistryTest, LayersOfDifferentWindowsAreDifferentKvGroups) {
  json config = tiny_llama();
  config.update({{"architectures", {"Qwen2ForCausalLM"}},
                 {"model_type", "qwen2"},
                 {"num_hidden_layers", 3},
                 {"use_sliding_window", true},
                 {"sliding_window", 32},
                 {"max_window_layers", 1}});
  Loaded loaded(config);
  const auto& groups = loaded.model->info().kv_groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].window, 0);
  EXPECT_EQ(groups[0].layers, 1);
  EXPECT_EQ(groups[1].window, 32);
  EXPECT_EQ(groups[1].layers, 2);
  // Both groups in one forward, prefill against chunks.
  const std::vector<int32_t> ids = some_ids(100);
  const auto whole = generate(loaded.runner, loaded.machine.ctx, 96, {ids}, 1000, 4)[0];
  const auto cut = generate(loaded.runner, loaded.machine.ctx, 96, {ids, some_ids(50)}, 7, 4)[0];
  EXPECT_EQ(whole.ids, cut.ids);
  EXPECT_EQ(whole.logits, cut.logits);
}

TEST(RegistryTest, AQuantisedEmbeddingIsDequantised) {
  json config = tiny_llama();
  config["quantization_config"] = {
      {"quant_method", "compressed-tensors"},
      {"format", "int-quantized"},
      {"ignore", {"lm_head"}},
      {"config_groups",
       {{"group_0",
         {{"targets", {"model.embed_tokens"}},
          {"weights", {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}}}}}}}};
  config["tie_word_embeddings"] = false;
  std::vector<int8_t> q(96 * 32);
  for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<int8_t>(i * 37 % 251 - 125);
  const std::vector<float> scales(96, 0.02f);
  Checkpoint quantised = random_checkpoint();
  quantised.add({{"model.embed_tokens.weight", DType::kI8, {96, 32}, "file"},
                 reinterpret_cast<const std::byte*>(q.data()),
                 0});
  quantised.add({{"model.embed_tokens.weight_scale", DType::kF32, {96, 1}, "file"},
                 reinterpret_cast<const std::byte*>(scales.data()),
                 0});
  auto edit = [&](const std::string& name, const Shape&, std::vector<float>& values) {
    if (name != "model.embed_tokens.weight") return;
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(q[i]) * 0.02f;
  };
  json plain = config;
  plain.erase("quantization_config");
  Loaded expected(plain, edit);
  TestMachine machine(kernels::select());
  auto model = load_model(parse_config(config, "config.json"), std::move(quantised), machine.ctx,
                          {WeightFormat::kF32});
  TestRunner runner(*model, machine.ctx, KvFormat::kF32, 16, 300, 1);
  TestSequence s{some_ids(20)};
  EXPECT_EQ(runner.step({{&s, 20, TestRunner::Work::kLast}}), expected.logits(some_ids(20)));
}

TEST(RegistryTest, AnAbsurdNumberOfPositionsIsRefused) {
  TestMachine machine(kernels::select());
  json config = tiny_llama();
  config["max_position_embeddings"] = int64_t{1} << 31;
  const std::string message =
      error_of([&] { load_model(parse_config(config, "config.json"), random_checkpoint(), machine.ctx); });
  EXPECT_TRUE(contains(message, "2147483648") && contains(message, "--max-model-len")) << message;
  EXPECT_EQ(
      Loaded(config, {}, {.dtype = WeightFormat::kF32, .max_model_len = 512}).model->info().max_model_len,
      512);
}

// BL-38: key variants of rope scaling give the same logits and derived lengths, and different from no
// scaling.
struct RopeVariants {
  std::string name;
  int64_t max_model_len;
  bool scaled;                 ///< differs from the plain model at position 600
  std::vector<json> variants;  ///< keys that are added to the config
};

std::vector<RopeVariants> rope_variants() {
  auto scaling = [](json s) { return json{{"rope_scaling", std::move(s)}}; };
  auto parameters = [](json s) {
    s["rope_theta"] = 10000.0;
    return json{{"rope_parameters", std::move(s)}, {"rope_theta", nullptr}};
  };
  const json yarn = {{"factor", 4}, {"original_max_position_embeddings", 512}};
  const json llama3 = {{"factor", 8},
                       {"low_freq_factor", 1},
                       {"high_freq_factor", 4},
                       {"original_max_position_embeddings", 512}};
  auto with = [](json s, const char* key, const char* type) {
    s[key] = type;
    return s;
  };
  auto both = [&](json s, const char* type) {
    return with(with(std::move(s), "type", type), "rope_type", type);
  };
  auto forms = [&](const json& s, const char* type) {
    return std::vector<json>{scaling(with(s, "rope_type", type)), scaling(with(s, "type", type)),
                             scaling(both(s, type)), parameters(with(s, "rope_type", type))};
  };
  return {{"none", 2048, false, {json::object(), scaling(nullptr), parameters({{"rope_type", "default"}})}},
          {"yarn", 2048, true, forms(yarn, "yarn")},
          {"llama3", 2048, true, forms(llama3, "llama3")},
          {"linear", 8192, true, forms({{"factor", 4}}, "linear")},
          {"dynamic", 8192, false, forms({{"factor", 4}}, "dynamic")}};
}

TEST(RopeScalingTest, KeyVariantsGiveTheSameLogitsAndLengths) {
  std::map<int, std::vector<float>> plain;
  for (const RopeVariants& row : rope_variants()) {
    std::map<int, std::vector<float>> first;
    for (const json& variant : row.variants) {
      json config = tiny_llama();
      config.update(variant);
      Loaded loaded(config);
      EXPECT_EQ(loaded.model->info().max_model_len, row.max_model_len) << row.name << variant;
      for (int position : {10, 600, 1900}) {
        const std::vector<float> logits = loaded.logits(some_ids(position + 1));
        if (!first.contains(position)) first[position] = logits;
        EXPECT_EQ(logits, first[position]) << row.name << " " << variant << " at " << position;
      }
    }
    if (plain.empty()) plain = first;
    EXPECT_EQ(first[600] != plain[600], row.scaled) << row.name;
  }
}

TEST(RopeScalingTest, FrequencyFactorsOfAGgufEqualTheLlama3FormulaThatTheyReplace) {
  json scaled = tiny_llama();
  scaled["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8},
                            {"low_freq_factor", 1},
                            {"high_freq_factor", 4},
                            {"original_max_position_embeddings", 512}};
  Loaded by_formula(scaled);
  TestMachine machine(kernels::select());
  ModelConfig config = parse_config(tiny_llama(), "config.json");
  const std::vector<float> plain = rope_frequencies(config.rope, 8),
                           want = rope_frequencies(by_formula.config.rope, 8);
  for (int i = 0; i < 4; ++i) config.rope.freq_factors.push_back(plain[i] / want[i]);
  auto model = load_model(config, random_checkpoint(), machine.ctx, {WeightFormat::kF32});
  TestRunner runner(*model, machine.ctx, KvFormat::kF32, 16, 300, 1);
  TestSequence s{some_ids(601)};
  const std::vector<float> logits = runner.step({{&s, 601, TestRunner::Work::kLast}}),
                           expected = by_formula.logits(some_ids(601));
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 1e-3);
}

// BL-42: what is not a number comes out as not a number, for its own sequence only.
TEST(BrokenWeightsTest, AreVisibleInTheLogits) {
  struct Case {
    const char* tensor;
    float value;
    bool row;  ///< scales row 3 by value, else sets one element to it
  };
  for (const Case& c :
       {Case{"model.layers.0.mlp.down_proj.weight", 1e30f, true},
        Case{"model.layers.1.mlp.down_proj.weight", NAN, false},
        Case{"model.layers.0.self_attn.k_proj.weight", NAN, false},
        Case{"model.layers.0.self_attn.v_proj.weight", INFINITY, false},
        Case{"model.layers.1.self_attn.q_proj.weight", NAN, false},
        Case{"model.layers.0.mlp.gate_proj.weight", -INFINITY, false}, Case{"model.norm.weight", NAN, false}})
    for (WeightFormat dtype : {WeightFormat::kF32, WeightFormat::kBF16}) {
      auto edit = [&](const std::string& name, const Shape& shape, std::vector<float>& values) {
        if (name != c.tensor) return;
        if (c.row)
          for (int64_t i = 0; i < shape[1]; ++i) values[3 * shape[1] + i] *= c.value;
        else
          values[5] = c.value;
      };
      Loaded loaded(tiny_llama(), edit, {dtype});
      EXPECT_EQ(greedy_token(loaded.machine.ctx, loaded.logits(some_ids(20))), -1)
          << c.tensor << " " << c.value;
    }
}

TEST(BrokenWeightsTest, ReluKeepsNaN) {
  json config = {{"architectures", {"OPTForCausalLM"}},
                 {"model_type", "opt"},
                 {"hidden_size", 32},
                 {"ffn_dim", 48},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"vocab_size", 96},
                 {"max_position_embeddings", 64},
                 {"word_embed_proj_dim", 32}};
  auto edit = [](const std::string& name, const Shape&, std::vector<float>& values) {
    if (name == "model.decoder.layers.0.fc1.weight") values[5] = NAN;
  };
  Loaded broken(config, edit), healthy(config);
  EXPECT_EQ(greedy_token(broken.machine.ctx, broken.logits(some_ids(20))), -1);
  EXPECT_GE(greedy_token(healthy.machine.ctx, healthy.logits(some_ids(20))), 0);
}

TEST(BrokenWeightsTest, AHealthyNeighbourIsNotTouched) {
  // Token 7 has a NaN embedding: only sequences that hold it are broken, also when their blocks are used
  // again.
  auto edit = [](const std::string& name, const Shape& shape, std::vector<float>& values) {
    if (name == "model.embed_tokens.weight") values[7 * shape[1] + 1] = NAN;
  };
  json config = tiny_llama();
  config["tie_word_embeddings"] = false;  // else the head has the NaN as well
  Loaded loaded(config, edit);
  const std::vector<int32_t> good = {1, 2, 3, 4, 5, 6, 8, 9, 10, 11}, bad = {1, 2, 3, 7, 5};
  const std::vector<float> alone = loaded.logits(good);
  TestSequence a{bad}, b{good}, c{bad};
  const std::vector<float> together = loaded.runner.step({{&a, 5, TestRunner::Work::kLast},
                                                          {&b, 10, TestRunner::Work::kLast},
                                                          {&c, 5, TestRunner::Work::kLast}});
  const std::vector<float> first(together.begin(), together.begin() + 96),
      second(together.begin() + 96, together.begin() + 192);
  EXPECT_EQ(greedy_token(loaded.machine.ctx, first), -1);
  EXPECT_EQ(second, alone);
  loaded.runner.release(a);
  loaded.runner.release(c);
  EXPECT_EQ(loaded.logits(good), alone);
}

// A size in the config that no other size goes with, or that the tensors do not have, is an Error that names
// something; whatever loads also runs.
TEST(RegistryTest, SizesThatDoNotFitAreErrors) {
  const std::string models = OCTAVO_SHARED_DIR "/golden/models/";
  const char* const kSizes[] = {"hidden_size",
                                "n_embd",
                                "num_attention_heads",
                                "n_head",
                                "num_key_value_heads",
                                "head_dim",
                                "intermediate_size",
                                "ffn_dim",
                                "n_inner",
                                "num_hidden_layers",
                                "n_layer",
                                "vocab_size",
                                "word_embed_proj_dim",
                                "max_position_embeddings",
                                "n_positions",
                                "partial_rotary_factor"};
  int refused = 0, loaded = 0;
  TestMachine machine(kernels::select());
  for (const char* name : {"gpt2", "opt-pre-f16", "opt-post-proj", "llama-bias-gqa3-tied", "mistral-swa32",
                           "qwen2-gqa7-tied", "qwen3-gqa3-odd"}) {
    const json published = read_json(models + name + "/config.json");
    for (const char* key : kSizes) {
      for (const json& value : std::initializer_list<json>{0, 1, 3, 8, 20, 61, 96, 4096, -1, 0.5, nullptr}) {
        SCOPED_TRACE(str(name, " ", key, " ", value.dump()));
        json edited = published;
        edited[key] = value;
        std::unique_ptr<Model> model;
        const std::string message = error_of([&] {
          model = load_model(parse_config(edited, "config.json"), open_checkpoint(models + name), machine.ctx,
                             {.dtype = WeightFormat::kF32, .max_model_len = 32});
        });
        if (!model) {
          EXPECT_GT(message.size(), 20u) << message;
          ++refused;
          continue;
        }
        TestRunner runner(*model, machine.ctx, KvFormat::kF32, 16, 8, 1);
        TestSequence s{std::vector<int32_t>(std::min<int64_t>(3, model->info().max_model_len), 0)};
        EXPECT_EQ(runner.step({{&s, static_cast<int>(s.ids.size()), TestRunner::Work::kLast}}).size(),
                  static_cast<size_t>(model->info().vocab));
        ++loaded;
      }
    }
  }
  EXPECT_GT(refused, 250);
  EXPECT_GT(loaded, 20);
}

}  // namespace
}  // namespace octavo
