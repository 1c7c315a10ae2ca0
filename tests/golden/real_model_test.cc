// SmolLM2-135M-Instruct, from its Hugging Face folder and from its GGUF file, against transformers' results.
// OCTAVO_REAL_MODELS names the folder that tools/get-real-models filled; without it these tests fail.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "load/json.h"
#include "load/safetensors.h"
#include "model/testing.h"

namespace octavo {
namespace {

using kernels::KvFormat;
using kernels::WeightFormat;

struct RealCase {
  const char* file;
  const char* isa;  ///< null: the best of this machine
  WeightFormat dtype;
  KvFormat kv;
  /// Largest error of a logit. BF16 weights cost nothing: the folder holds them so. It was made from the GGUF
  /// by rounding to BF16, which the file's own blocks do without: 0.16. A BF16 cache costs 0.22 here, BF16
  /// dot products (levels above avx2) 0.4 in linear layers, 0.58 in attention too, int8 activations 1.85.
  /// (transformers in BF16, over the passage: 2.1.)
  float error;
  int equal;  ///< of the 384 tokens, at least
  enum Blocks { kAsStored, kDecoded, kInt8 } blocks = kAsStored;
  ///< kDecoded: to BF16, which is what the golden was computed on; kInt8: with int8 activations, as served
};

std::string golden(const std::string& name) {
  return std::string(OCTAVO_SHARED_DIR) + "/golden/real/" + name;
}

double log_probability(const float* row, int64_t vocab, int32_t id) {
  const double top = *std::max_element(row, row + vocab);
  double sum = 0;
  for (int64_t i = 0; i < vocab; ++i) sum += std::exp(row[i] - top);
  return row[id] - top - std::log(sum);
}

/// Of the golden's passage, scored as its one window of 1,000 tokens.
double passage_perplexity(TestRunner& runner, Checkpoint& arrays, int64_t vocab) {
  const TensorView stored = arrays.get("passage.ids");
  TestSequence s{{stored.as<int32_t>(), stored.as<int32_t>() + stored.shape.elements()}};
  double nll = 0;
  for (int64_t first = 0; first < 1000; first += 250) {
    const std::vector<float> logits = runner.step({{&s, 250, TestRunner::Work::kAll}});
    for (int64_t t = first; t < std::min<int64_t>(first + 250, 999); ++t)
      nll -= log_probability(logits.data() + (t - first) * vocab, vocab, s.ids[t + 1]);
  }
  return std::exp(nll / 999);
}

class RealModelTest : public ::testing::TestWithParam<RealCase> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("OCTAVO_REAL_MODELS");
    ASSERT_NE(folder, nullptr) << "OCTAVO_REAL_MODELS is not set";
    const std::string path = std::string(folder) + "/" + GetParam().file;
    model_ = load_model(load_model_config(path), open_checkpoint(path), machine_.ctx,
                        {.dtype = GetParam().dtype,
                         .decode_weights = GetParam().blocks == RealCase::kDecoded,
                         .int8_blocks = GetParam().blocks == RealCase::kInt8});
    vocab_ = model_->info().vocab;
    runner_ = std::make_unique<TestRunner>(*model_, machine_.ctx, GetParam().kv, 16, 128, 1);
    arrays_ = std::make_unique<Checkpoint>("golden");
    add_safetensors_file(*arrays_, golden("smollm2-135m-instruct.safetensors"));
  }
  float logit_error(const std::string& prompt, const std::vector<float>& logits) {
    const float* want = arrays_->get(prompt + ".logits_last").as<float>();
    float worst = 0;
    for (int64_t i = 0; i < vocab_; ++i) worst = std::max(worst, std::abs(logits[i] - want[i]));
    return worst;
  }

  TestMachine machine_{GetParam().isa ? kernels::select(GetParam().isa) : kernels::select()};
  std::unique_ptr<Model> model_;
  std::unique_ptr<TestRunner> runner_;
  std::unique_ptr<Checkpoint> arrays_;
  int64_t vocab_ = 0;
};

TEST_P(RealModelTest, GreedyTokensEqualTheStoredOnes) {
  const nlohmann::json prompts = read_json(golden("smollm2-135m-instruct.json"))["prompts"];
  std::vector<std::vector<int32_t>> ids;
  for (const auto& [name, p] : prompts.items()) ids.push_back(p["ids"]);
  const auto got = generate(*runner_, machine_.ctx, vocab_, ids, 16, 64);  // all six together, in chunks
  size_t i = 0;
  int compared = 0;
  for (const auto& [name, p] : prompts.items()) {
    const std::vector<int32_t> want = p["greedy"]["ids"];
    const std::vector<float> margins = p["greedy"]["margins"];
    if (name == "chat_capital" || name == "raw_fox") {
      const float error = logit_error(name, got[i].logits[0]);
      EXPECT_LE(error, GetParam().error) << name;
      RecordProperty("error_" + name, std::to_string(error));
    }
    // Up to the first other token, which only a margin within the error excuses.
    size_t equal = 0;
    while (equal < want.size() && got[i].ids[equal] == want[equal]) ++equal;
    if (equal < want.size()) {
      EXPECT_LE(margins[equal], 2 * GetParam().error) << name << " step " << equal;
    }
    RecordProperty("equal_" + name, static_cast<int>(equal));
    compared += static_cast<int>(equal);
    ++i;
  }
  RecordProperty("equal", compared);
  EXPECT_GE(compared, GetParam().equal);
}

TEST_P(RealModelTest, PerplexityOfThePassage) {
  const double want = read_json(golden("smollm2-135m-instruct.json"))["perplexity"]["value"];
  const double perplexity = passage_perplexity(*runner_, *arrays_, vocab_);
  RecordProperty("perplexity", std::to_string(perplexity));
  EXPECT_NEAR(perplexity, want, want * 0.01);
}

/// Weights that run as stored take the memory that the file has for them.
TEST_P(RealModelTest, BlocksTakeTheMemoryOfTheFile) {
  const std::string path = std::string(std::getenv("OCTAVO_REAL_MODELS")) + "/" + GetParam().file;
  Checkpoint checkpoint = open_checkpoint(path);
  double stored = 0;
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& tensor = *checkpoint.find(name);
    const DTypeInfo& type = info(tensor.dtype);
    stored += static_cast<double>(tensor.shape.elements()) / type.block_elements * type.block_bytes;
  }
  const double share = static_cast<double>(model_->info().weight_bytes) / stored;
  RecordProperty("share", std::to_string(share));
  const double decoded =
      GetParam().blocks == RealCase::kDecoded ? 16 / 5.0 : 1;  // Q4_1 takes 5 bits a weight
  EXPECT_LE(share, (GetParam().dtype == WeightFormat::kF32 ? 2.1 : 1.1) * decoded);
}

INSTANTIATE_TEST_SUITE_P(
    SmolLM2, RealModelTest,
    ::testing::Values(
        RealCase{"smollm2-135m-instruct", "avx2", WeightFormat::kF32, KvFormat::kF32, 1e-3f, 384},
        RealCase{"smollm2-135m-instruct", "avx2", WeightFormat::kBF16, KvFormat::kF32, 1e-3f, 384},
        RealCase{"smollm2-135m-instruct", nullptr, WeightFormat::kBF16, KvFormat::kBF16, 0.65f, 200},
        RealCase{"smollm2-135m-instruct-q4_1.gguf", "avx2", WeightFormat::kBF16, KvFormat::kF32, 0.2f, 330},
        RealCase{"smollm2-135m-instruct-q4_1.gguf", "avx2", WeightFormat::kBF16, KvFormat::kF32, 1e-3f, 384,
                 RealCase::kDecoded},
        RealCase{"smollm2-135m-instruct-q4_1.gguf", nullptr, WeightFormat::kBF16, KvFormat::kF32, 2.2f, 100,
                 RealCase::kInt8},
        RealCase{"smollm2-135m-instruct-q4_1.gguf", nullptr, WeightFormat::kBF16, KvFormat::kBF16, 0.6f,
                 200}),
    [](const ::testing::TestParamInfo<RealCase>& param) {
      const RealCase& c = param.param;
      return std::string(std::string(c.file).ends_with(".gguf") ? "Gguf" : "Folder") +
             (c.dtype == WeightFormat::kF32 ? "F32" : "BF16") +
             (c.kv == KvFormat::kF32 ? "KvF32" : "KvBF16") +
             (c.blocks == RealCase::kDecoded ? "Decoded"
              : c.blocks == RealCase::kInt8  ? "Int8"
                                             : "");
    });

/// The quantised folders, run in the arithmetic that they state. The weight-only one repeats the stored
/// perplexity to 2e-5. With int8 activations the model is chaotic: the last bit of a float32 sum moves some
/// activation by an int8 step, and so all that follows. The reference itself (generate/make_real.py) gives,
/// where 18.66 and 33.69 are stored: on another CPU 18.79 and 33.20, in float64 18.09 and 34.07, with exact
/// products 18.69 and 35.13, with embeddings changed by 2e-7 18.36 to 19.02 and 33.85 to 34.63. So a
/// tolerance of 1 % would test luck.
struct QuantisedCase {
  const char* folder;
  const char* isa;     ///< null: the best of this machine
  const char* kernel;  ///< how the names of its kernels begin
  WeightFormat dtype;
  KvFormat kv;
  double tolerance;
};

class QuantisedRealModelTest : public ::testing::TestWithParam<QuantisedCase> {};

TEST_P(QuantisedRealModelTest, PerplexityOfThePassage) {
  const QuantisedCase& c = GetParam();
  const char* folder = std::getenv("OCTAVO_REAL_MODELS");
  ASSERT_NE(folder, nullptr) << "OCTAVO_REAL_MODELS is not set";
  const std::string path = std::string(folder) + "/" + c.folder;
  TestMachine machine(c.isa ? kernels::select(c.isa) : kernels::select());
  const auto model =
      load_model(load_model_config(path), open_checkpoint(path), machine.ctx, {.dtype = c.dtype});
  EXPECT_NE(model->info().kernels[0].find(std::string(": ") + c.kernel), std::string::npos)
      << model->info().kernels[0];
  TestRunner runner(*model, machine.ctx, c.kv, 16, 128, 1);
  Checkpoint arrays("golden");
  add_safetensors_file(arrays, golden(std::string(c.folder) + ".safetensors"));
  const double want = read_json(golden(std::string(c.folder) + ".json"))["perplexity"]["value"];
  const double perplexity = passage_perplexity(runner, arrays, model->info().vocab);
  RecordProperty("perplexity", std::to_string(perplexity));
  EXPECT_NEAR(perplexity, want, want * c.tolerance);
}

INSTANTIATE_TEST_SUITE_P(SmolLM2, QuantisedRealModelTest,
                         ::testing::Values(QuantisedCase{"smollm2-135m-instruct-w8a8", "avx2", "w8a8",
                                                         WeightFormat::kF32, KvFormat::kF32, 0.02},
                                           QuantisedCase{"smollm2-135m-instruct-w4a8", "avx2", "w4a8",
                                                         WeightFormat::kF32, KvFormat::kF32, 0.02},
                                           QuantisedCase{"smollm2-135m-instruct-w4a16", "avx2", "w4a16",
                                                         WeightFormat::kF32, KvFormat::kF32, 0.01},
                                           QuantisedCase{"smollm2-135m-instruct-w8a8", nullptr, "w8a8",
                                                         WeightFormat::kBF16, KvFormat::kBF16, 0.04},
                                           QuantisedCase{"smollm2-135m-instruct-w4a8", nullptr, "w4a8",
                                                         WeightFormat::kBF16, KvFormat::kBF16, 0.04},
                                           QuantisedCase{"smollm2-135m-instruct-w4a16", nullptr, "w4a16",
                                                         WeightFormat::kBF16, KvFormat::kBF16, 0.01}),
                         [](const ::testing::TestParamInfo<QuantisedCase>& param) {
                           return std::string(param.param.kernel) +
                                  (param.param.dtype == WeightFormat::kF32 ? "_F32" : "_BF16");
                         });

}  // namespace
}  // namespace octavo
