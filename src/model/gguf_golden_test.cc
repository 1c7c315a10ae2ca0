// The same model as a GGUF file: golden folders written out as llama.cpp's converter writes them, by a writer
// of its own, so that names, orders of rows and metadata are tested against something else than our reader.
// Config, logits and greedy tokens must be those of the Hugging Face folder.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>

#include "load/dequantise.h"
#include "load/json.h"
#include "load/safetensors.h"
#include "load/test_gguf.h"
#include "model/rope.h"
#include "model/testing.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;
using kernels::KvFormat;
using kernels::WeightFormat;
using test::GgufBytes;

constexpr float kF32Tolerance = 5e-5f;  // as in golden_test.cc

struct Names {
  const char *gguf, *hf;
};
constexpr Names kDecoderLayer[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr Names kDecoderModel[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Names kGpt2Layer[] = {{"attn_norm", "ln_1"},       {"ffn_norm", "ln_2"},
                                {"attn_qkv", "attn.c_attn"}, {"attn_output", "attn.c_proj"},
                                {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};
constexpr Names kGpt2Model[] = {{"token_embd", "transformer.wte"},
                                {"position_embd", "transformer.wpe"},
                                {"output_norm", "transformer.ln_f"}};

/// One golden folder to one GGUF file.
class GgufWriter {
 public:
  GgufWriter(const std::string& folder, const std::string& arch, bool keep_types)
      : folder_(folder),
        arch_(arch),
        keep_types_(keep_types),
        config_(load_model_config(folder)),
        raw_(read_json(folder + "/config.json")),
        from_(open_checkpoint(folder)) {}

  /// Writes this value instead of the true one.
  void lie(const std::string& key, int64_t value) { lie_ = {key, value}; }
  void write(const std::string& path) {
    metadata();
    rope();
    const bool gpt2 = arch_ == "gpt2";
    for (const Names& n : gpt2 ? std::span<const Names>(kGpt2Model) : std::span<const Names>(kDecoderModel))
      tensors(n.gguf, n.hf);
    for (int i = 0; i < config_.layers; ++i)
      for (const Names& n : gpt2 ? std::span<const Names>(kGpt2Layer) : std::span<const Names>(kDecoderLayer))
        tensors(str("blk.", i, ".", n.gguf), str(gpt2 ? "transformer.h." : "model.layers.", i, ".", n.hf));
    const std::string bytes = out_.bytes();
    std::ofstream(path, std::ios::binary) << bytes;
  }

 private:
  void number(const std::string& key, int64_t value) {
    out_.u32(arch_ + "." + key, static_cast<uint32_t>(key == lie_.first ? lie_.second : value));
  }
  void metadata() {
    out_.text("general.architecture", arch_);
    number("block_count", config_.layers);
    number("context_length", config_.max_position_embeddings);
    number("embedding_length", config_.hidden);
    number("feed_forward_length", config_.intermediate);
    number("attention.head_count", config_.heads);
    number("attention.head_count_kv", config_.kv_heads);
    if (arch_ == "gpt2") {
      out_.f32("gpt2.attention.layer_norm_epsilon", static_cast<float>(config_.norm_eps));
    } else {
      out_.f32(arch_ + ".attention.layer_norm_rms_epsilon", static_cast<float>(config_.norm_eps));
      number("attention.key_length", config_.head_dim);
      number("attention.value_length", config_.head_dim);
      number("rope.dimension_count", config_.head_dim);
    }
  }

  /// gguf_parameters of llama.cpp's conversion: linear and yarn are metadata, llama3 a tensor of divisors.
  void rope() {
    const nlohmann::json* given = raw_.contains("rope_parameters") ? &raw_["rope_parameters"]
                                  : raw_.contains("rope_scaling")  ? &raw_["rope_scaling"]
                                                                   : nullptr;
    if (arch_ == "gpt2") return;
    const double theta = given && given->contains("rope_theta") ? given->at("rope_theta").get<double>()
                                                                : raw_.at("rope_theta").get<double>();
    out_.f32(arch_ + ".rope.freq_base", static_cast<float>(theta));
    if (!given || given->is_null()) return;
    const std::string type = given->at("rope_type");
    const std::string key = arch_ + ".rope.scaling.";
    if (type == "llama3") rope_freqs(*given, theta);
    if (type != "linear" && type != "yarn") return;
    out_.text(key + "type", type).f32(key + "factor", given->at("factor").get<float>());
    if (given->contains("original_max_position_embeddings"))
      out_.u32(key + "original_context_length", given->at("original_max_position_embeddings"));
  }
  void rope_freqs(const nlohmann::json& given, double theta) {
    const double factor = given["factor"], low = given["low_freq_factor"], high = given["high_freq_factor"],
                 original = given["original_max_position_embeddings"];
    std::vector<float> divisors;
    for (int64_t i = 0; i < config_.head_dim / 2; ++i) {
      const double turns =  // within the original length
          original * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(config_.head_dim)) /
          (2 * M_PI);
      const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
      divisors.push_back(static_cast<float>(1 / (kept + (1 - kept) / factor)));
    }
    out_.floats("rope_freqs.weight", {divisors.size()}, divisors);
  }

  void tensors(const std::string& gguf, const std::string& hf) {
    for (const char* kind : {".weight", ".bias"})
      if (from_.find(hf + kind)) tensor(gguf + kind, hf + kind);
  }
  void tensor(const std::string& gguf, const std::string& hf) {
    const TensorView view = from_.get(hf);
    std::vector<float> values = dequantise(view);
    int64_t rows = view.shape.rank == 2 ? view.shape[0] : 1, columns = view.shape[view.shape.rank - 1];
    const bool matrix = view.shape.rank == 2;
    if (matrix && arch_ == "gpt2" && gguf.starts_with("blk.")) {  // Conv1D is [in, out]
      values = transposed(values, rows, columns);
      std::swap(rows, columns);
    }
    if (arch_ == "llama" && gguf.find(".attn_q.") != gguf.npos)
      values = interleaved(values, config_.heads, matrix ? columns : 1);
    if (arch_ == "llama" && gguf.find(".attn_k.") != gguf.npos)
      values = interleaved(values, config_.kv_heads, matrix ? columns : 1);
    std::vector<uint64_t> dims{static_cast<uint64_t>(columns)};
    if (matrix) dims.push_back(static_cast<uint64_t>(rows));
    if (matrix && keep_types_ && view.dtype == DType::kBF16)
      out_.stored(gguf, dims, 30, bf16(values));
    else  // vectors always
      out_.floats(gguf, dims, values);
  }

  static std::vector<float> transposed(const std::vector<float>& x, int64_t rows, int64_t columns) {
    std::vector<float> out(x.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) out[c * rows + r] = x[r * columns + c];
    return out;
  }
  /// Each head's rows 0 1 2 ... become 0 h/2 1 h/2+1 ...: rows that rotate together are neighbours.
  static std::vector<float> interleaved(const std::vector<float>& x, int64_t heads, int64_t columns) {
    std::vector<float> out;
    const int64_t rows = static_cast<int64_t>(x.size()) / columns / heads;
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t r = 0; r < rows; ++r) {
        auto row = x.begin() + (head * rows + r % 2 * (rows / 2) + r / 2) * columns;
        out.insert(out.end(), row, row + columns);
      }
    return out;
  }
  /// Exact: the values come from BF16.
  static std::string bf16(const std::vector<float>& values) {
    std::string out;
    for (const float x : values) out += test::raw(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
    return out;
  }

  std::string folder_, arch_;
  bool keep_types_;  ///< BF16 matrices stay BF16; else all is F32
  ModelConfig config_;
  nlohmann::json raw_;
  Checkpoint from_;
  std::pair<std::string, int64_t> lie_;
  GgufBytes out_;
};

struct GgufCase {
  const char *model, *arch;
};

class GgufGoldenTest : public ::testing::TestWithParam<GgufCase> {
 protected:
  std::string folder() const { return std::string(OCTAVO_SHARED_DIR "/golden/models/") + GetParam().model; }
  std::string write(bool keep_types) {
    const std::string path =
        (fs::path(::testing::TempDir()) / str("octavo_", GetParam().model, keep_types ? "" : "_f32", ".gguf"))
            .string();
    GgufWriter(folder(), GetParam().arch, keep_types).write(path);
    written_.push_back(path);
    return path;
  }
  void TearDown() override {
    for (const std::string& path : written_) fs::remove(path);
  }
  std::vector<std::string> written_;
};

void expect_same_rope(const ModelConfig& gguf, const ModelConfig& hf) {
  const int rotary = rotary_dims(hf.rope, hf.head_dim);
  ASSERT_EQ(rotary_dims(gguf.rope, gguf.head_dim), rotary);
  EXPECT_EQ(gguf.rope.theta, hf.rope.theta);
  EXPECT_NEAR(gguf.rope.attention_factor, hf.rope.attention_factor, 1e-12);
  if (hf.rope.type != RopeType::kLlama3) {  // divisors there, see GgufWriter::rope_freqs
    EXPECT_EQ(gguf.rope.type, hf.rope.type);
    EXPECT_EQ(gguf.rope.factor, hf.rope.factor);
    EXPECT_EQ(gguf.rope.original_max_position, hf.rope.original_max_position);
  }
  const std::vector<float> want = rope_frequencies(hf.rope, rotary),
                           got = rope_frequencies(gguf.rope, rotary);
  for (int i = 0; i < rotary / 2; ++i) EXPECT_FLOAT_EQ(got[i], want[i]) << i;
}

TEST_P(GgufGoldenTest, ConfigEqualsTheFolders) {
  const ModelConfig gguf = load_model_config(write(true)), hf = load_model_config(folder());
  EXPECT_EQ(gguf.architecture, hf.architecture);
  for (auto member : {&ModelConfig::hidden, &ModelConfig::layers, &ModelConfig::vocab, &ModelConfig::heads,
                      &ModelConfig::kv_heads, &ModelConfig::head_dim, &ModelConfig::intermediate,
                      &ModelConfig::max_position_embeddings, &ModelConfig::max_model_len})
    EXPECT_EQ(gguf.*member, hf.*member);
  for (auto member :
       {&ModelConfig::qkv_bias, &ModelConfig::out_bias, &ModelConfig::mlp_bias, &ModelConfig::qk_norm,
        &ModelConfig::tie_word_embeddings, &ModelConfig::learned_positions})
    EXPECT_EQ(gguf.*member, hf.*member);
  EXPECT_EQ(gguf.norm, hf.norm);
  EXPECT_EQ(gguf.activation, hf.activation);
  EXPECT_FLOAT_EQ(static_cast<float>(gguf.norm_eps), static_cast<float>(hf.norm_eps));
  for (int i = 0; i < hf.layers; ++i) EXPECT_EQ(gguf.window(i), hf.window(i));
  if (!hf.learned_positions) expect_same_rope(gguf, hf);
}

struct Loaded {
  explicit Loaded(const std::string& path)
      : machine(kernels::select()),
        model(load_model(load_model_config(path), open_checkpoint(path), machine.ctx,
                         {.dtype = WeightFormat::kF32})),
        runner(*model, machine.ctx, KvFormat::kF32, 16, 256, 1) {}
  std::vector<float> logits(const std::vector<int32_t>& ids) {
    TestSequence s{ids};
    std::vector<float> out = runner.step({{&s, static_cast<int>(ids.size()), TestRunner::Work::kAll}});
    runner.release(s);
    return out;
  }
  TestMachine machine;
  std::unique_ptr<Model> model;
  TestRunner runner;
};

/// The largest difference from the stored logits of a prompt: of all positions, or of the last eight.
float error_of(Checkpoint& arrays, const std::string& prompt, const std::vector<float>& logits) {
  const TensorView want = arrays.get(prompt + (arrays.find(prompt + ".logits") ? ".logits" : ".logits_last"));
  const float* stored = want.as<float>();
  const int64_t count = want.shape.elements();
  float worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float d = std::abs(logits[logits.size() - count + i] - stored[i]);
    worst = d <= worst ? worst : d;
  }
  return worst;
}

TEST_P(GgufGoldenTest, LogitsEqualTheFolders) {
  const nlohmann::json golden = read_json(folder() + "/golden.json");
  Checkpoint arrays(folder());
  add_safetensors_file(arrays, folder() + "/golden.safetensors");
  Loaded hf(folder());
  const bool same_bits = load_model_config(folder()).rope.type != RopeType::kLlama3;
  for (const bool keep_types : {true, false}) {
    Loaded gguf(write(keep_types));
    EXPECT_EQ(gguf.model->info().ignored_tensors, std::vector<std::string>{});
    const int64_t vocab = gguf.model->info().vocab;
    for (const auto& [name, prompt] : golden["prompts"].items()) {
      const std::vector<float> logits = gguf.logits(prompt["ids"]);
      EXPECT_LE(error_of(arrays, name, logits), kF32Tolerance) << name;
      if (same_bits) {
        EXPECT_EQ(logits, hf.logits(prompt["ids"])) << name;
      }
      EXPECT_EQ(generate(gguf.runner, gguf.machine.ctx, vocab, {prompt["ids"]}, 64, 32)[0].ids,
                generate(hf.runner, hf.machine.ctx, vocab, {prompt["ids"]}, 64, 32)[0].ids)
          << name;
    }
  }
}

/// Metadata that contradicts the tensors is an Error; what loads all the same (a shorter context) also runs.
TEST_P(GgufGoldenTest, MetadataThatDoesNotFitIsAnError) {
  int refused = 0;
  for (const char* key :
       {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "attention.key_length", "rope.dimension_count"}) {
    for (const int64_t value : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{8},
                                int64_t{48}, int64_t{61}, int64_t{4096}, int64_t{0xffffffff}}) {
      SCOPED_TRACE(str(key, " ", value));
      const std::string path = (fs::path(::testing::TempDir()) / "octavo_lie.gguf").string();
      written_.push_back(path);
      GgufWriter writer(folder(), GetParam().arch, true);
      writer.lie(key, value);
      writer.write(path);
      try {
        Loaded loaded(path);
        const ModelInfo& info = loaded.model->info();
        const std::vector<int32_t> ids(std::min<int64_t>(3, info.max_model_len), 0);
        EXPECT_EQ(loaded.logits(ids).size(), ids.size() * info.vocab);
      } catch (const Error& e) {
        EXPECT_GT(std::string(e.what()).size(), 20u);
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 30);
}

INSTANTIATE_TEST_SUITE_P(
    Models, GgufGoldenTest,
    ::testing::Values(GgufCase{"gpt2", "gpt2"}, GgufCase{"llama-mha-f32", "llama"},
                      GgufCase{"llama-bias-gqa3-tied", "llama"}, GgufCase{"llama-linear-rope", "llama"},
                      GgufCase{"llama-yarn-gqa7", "llama"}, GgufCase{"llama3-rope-sharded", "llama"},
                      GgufCase{"qwen2-gqa7-tied", "qwen2"}, GgufCase{"qwen3-tied", "qwen3"},
                      GgufCase{"qwen3-gqa3-odd", "qwen3"}),
    [](const auto& test) {
      std::string name = test.param.model;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace octavo
