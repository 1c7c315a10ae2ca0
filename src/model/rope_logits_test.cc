// BL-38: logits of one Llama under every rope type, in every spelling of its keys, at positions 10, 600 and
// 1900, against a plain implementation of the whole model in double precision. The formulas are written down
// again here, from transformers' modeling_rope_utils; without scaling this implementation is itself checked
// by the golden logits.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "load/json.h"
#include "load/safetensors.h"
#include "model/testing.h"

namespace octavo {
namespace {

using kernels::KvFormat;
using kernels::WeightFormat;
using nlohmann::json;

const std::string kFolder = OCTAVO_SHARED_DIR "/golden/models/llama-mha-f32";
constexpr int kHidden = 64, kHeads = 4, kDim = 16, kLayers = 2, kMlp = 160, kVocab = 640;
constexpr double kEps = 1e-5, kTheta = 10000;

/// Inverse frequencies [kDim / 2] at a position; all of them times `attention` in cos and sin.
struct Rope {
  std::function<std::vector<double>(int64_t position)> frequencies;
  double attention = 1;
};

class Reference {
 public:
  /// Logits [kVocab] of the given positions of one prompt.
  std::vector<std::vector<double>> logits(const std::vector<int32_t>& ids, const Rope& rope,
                                          const std::vector<int64_t>& wanted) {
    const auto count = static_cast<int64_t>(ids.size());
    std::vector<double> x;
    const float* table = weight("model.embed_tokens", kVocab, kHidden);
    for (const int32_t id : ids) x.insert(x.end(), table + id * kHidden, table + (id + 1) * kHidden);
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string name = str("model.layers.", layer, ".");
      std::vector<int64_t> rows = wanted;  // past the last keys no other row matters
      if (layer + 1 < kLayers)
        for (rows.clear(); static_cast<int64_t>(rows.size()) < count;)
          rows.push_back(static_cast<int64_t>(rows.size()));
      attend(name, rope, count, rows, x);
      for (const int64_t row : rows) mlp(name, x.data() + row * kHidden);
    }
    std::vector<std::vector<double>> out;
    for (const int64_t row : wanted)
      out.push_back(product("lm_head", kVocab, norm("model.norm", x.data() + row * kHidden)));
    return out;
  }

 private:
  const float* weight(const std::string& name, int64_t rows, int64_t columns) {
    const Shape shape = rows ? Shape{rows, columns} : Shape{columns};
    return files_.require(name + ".weight", shape).as<float>();
  }
  std::vector<double> norm(const std::string& name, const double* x) {
    const float* w = weight(name, 0, kHidden);
    double squares = 0;
    for (int i = 0; i < kHidden; ++i) squares += x[i] * x[i];
    std::vector<double> out(kHidden);
    for (int i = 0; i < kHidden; ++i) out[i] = x[i] / std::sqrt(squares / kHidden + kEps) * w[i];
    return out;
  }
  std::vector<double> product(const std::string& name, int64_t rows, const std::vector<double>& x) {
    const auto columns = static_cast<int64_t>(x.size());
    const float* w = weight(name, rows, columns);
    std::vector<double> out(rows, 0.0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) out[r] += w[r * columns + c] * x[c];
    return out;
  }
  /// Halves of a head turn together: element i with i + kDim / 2. Frequency and angle are float32, as
  /// transformers has them.
  static void rotate(const Rope& rope, int64_t position, std::vector<double>& heads) {
    const std::vector<double> frequencies = rope.frequencies(position);
    for (int h = 0; h < kHeads; ++h)
      for (int i = 0; i < kDim / 2; ++i) {
        const float angle = static_cast<float>(position) * static_cast<float>(frequencies[i]);
        const double c = std::cos(angle) * rope.attention, s = std::sin(angle) * rope.attention;
        double &a = heads[h * kDim + i], &b = heads[h * kDim + i + kDim / 2];
        const double turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
      }
  }
  void attend(const std::string& name, const Rope& rope, int64_t count, const std::vector<int64_t>& rows,
              std::vector<double>& x) {
    std::vector<std::vector<double>> normed, k, v;
    for (int64_t t = 0; t < count; ++t) {
      normed.push_back(norm(name + "input_layernorm", x.data() + t * kHidden));
      k.push_back(product(name + "self_attn.k_proj", kHidden, normed[t]));
      v.push_back(product(name + "self_attn.v_proj", kHidden, normed[t]));
      rotate(rope, t, k[t]);
    }
    for (const int64_t row : rows) {
      std::vector<double> q = product(name + "self_attn.q_proj", kHidden, normed[row]);
      rotate(rope, row, q);
      std::vector<double> attended(kHidden, 0.0);
      for (int h = 0; h < kHeads; ++h) attend_head(q.data() + h * kDim, k, v, row, h * kDim, attended);
      const std::vector<double> out = product(name + "self_attn.o_proj", kHidden, attended);
      for (int i = 0; i < kHidden; ++i) x[row * kHidden + i] += out[i];
    }
  }
  static void attend_head(const double* q, const std::vector<std::vector<double>>& k,
                          const std::vector<std::vector<double>>& v, int64_t row, int first,
                          std::vector<double>& out) {
    std::vector<double> scores(row + 1);
    for (int64_t t = 0; t <= row; ++t) {
      double dot = 0;
      for (int i = 0; i < kDim; ++i) dot += q[i] * k[t][first + i];
      scores[t] = dot / std::sqrt(kDim);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - top);
    for (int64_t t = 0; t <= row; ++t)
      for (int i = 0; i < kDim; ++i) out[first + i] += scores[t] / sum * v[t][first + i];
  }
  void mlp(const std::string& name, double* x) {
    const std::vector<double> normed = norm(name + "post_attention_layernorm", x);
    std::vector<double> gate = product(name + "mlp.gate_proj", kMlp, normed);
    const std::vector<double> up = product(name + "mlp.up_proj", kMlp, normed);
    for (int i = 0; i < kMlp; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    const std::vector<double> down = product(name + "mlp.down_proj", kHidden, gate);
    for (int i = 0; i < kHidden; ++i) x[i] += down[i];
  }

  Checkpoint files_ = open_safetensors(kFolder);
};

// ---- the formulas --------------------------------------------------------------------------------------

std::vector<double> plain(double theta = kTheta) {
  std::vector<double> out;
  for (int i = 0; i < kDim; i += 2) out.push_back(1 / std::pow(theta, static_cast<double>(i) / kDim));
  return out;
}

Rope fixed(std::vector<double> frequencies, double attention = 1) {
  return {[=](int64_t) { return frequencies; }, attention};
}

Rope linear_rope(double factor) {
  std::vector<double> f = plain();
  for (double& x : f) x /= factor;
  return fixed(f);
}

/// A position is turned for the length that the sequence has with it (see model/rope.h).
Rope dynamic_rope(double factor, double original) {
  return {[=](int64_t position) {
            const double length = std::max(original, static_cast<double>(position + 1));
            return plain(kTheta * std::pow(factor * length / original - (factor - 1), kDim / (kDim - 2.0)));
          },
          1};
}

Rope llama3_rope(double factor, double low, double high, double original) {
  std::vector<double> f = plain();
  for (double& x : f) {
    const double wavelength = 2 * std::numbers::pi / x;
    const double smooth = (original / wavelength - low) / (high - low);
    const double mixed = (1 - smooth) * x / factor + smooth * x;
    x = wavelength > original / low ? x / factor : wavelength < original / high ? x : mixed;
  }
  return fixed(f);
}

Rope yarn_rope(double factor, double original) {
  auto correction = [&](double rotations) {
    return kDim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(kTheta));
  };
  const double low = std::max(std::floor(correction(32)), 0.0),
               high = std::min(std::ceil(correction(1)), kDim - 1.0);
  std::vector<double> f = plain();
  for (int i = 0; i < kDim / 2; ++i) {
    const double interpolated = std::clamp((i - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / factor * interpolated + f[i] * (1 - interpolated);
  }
  return fixed(f, 0.1 * std::log(factor) + 1);
}

// ---- the engine's model --------------------------------------------------------------------------------

struct Subject {
  explicit Subject(const json& rope_keys, int64_t max_positions)
      : machine(kernels::select()), config(parsed(rope_keys, max_positions)) {
    model = load_model(config, open_safetensors(kFolder), machine.ctx, {.dtype = WeightFormat::kF32});
  }
  static ModelConfig parsed(const json& rope_keys, int64_t max_positions) {
    json config = read_json(kFolder + "/config.json");
    config["max_position_embeddings"] = max_positions;
    config.erase("rope_scaling");
    for (const auto& [key, value] : rope_keys.items()) config[key] = value;
    return parse_config(config, "config.json");
  }
  std::vector<float> logits(const std::vector<int32_t>& ids, int64_t position) {
    TestRunner runner(*model, machine.ctx, KvFormat::kF32, 16, 160, 1);
    TestSequence s{{ids.begin(), ids.begin() + position + 1}};
    return runner.step({{&s, static_cast<int>(position + 1), TestRunner::Work::kLast}});
  }
  TestMachine machine;
  ModelConfig config;
  std::unique_ptr<Model> model;
};

const std::vector<int64_t> kPositions = {10, 600, 1900};

std::vector<int32_t> prompt(int64_t count) {
  std::mt19937 random(9);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random() % kVocab));
  return ids;
}

struct RopeCase {
  const char* name;
  int64_t max_positions, max_length;  ///< of the config, and derived from it
  Rope rope;
  std::vector<json> spellings;
};

std::vector<RopeCase> cases() {
  json yarn = {{"factor", 4}, {"original_max_position_embeddings", 512}};
  json llama3 = {{"rope_type", "llama3"},
                 {"factor", 8},
                 {"low_freq_factor", 1},
                 {"high_freq_factor", 4},
                 {"original_max_position_embeddings", 256}};
  auto typed = [](json object, const char* key, const char* type) {
    object[key] = type;
    return object;
  };
  auto scaling = [](json object) { return json{{"rope_scaling", std::move(object)}}; };
  auto parameters = [](json object) {
    object["rope_theta"] = kTheta;
    return json{{"rope_parameters", std::move(object)}};
  };
  json both = typed(typed(yarn, "type", "yarn"), "rope_type", "yarn");
  return {
      {"default",
       2048,
       2048,
       fixed(plain()),
       {scaling(nullptr), json::object(), parameters({{"rope_type", "default"}})}},
      {"linear",
       512,
       2048,
       linear_rope(4),
       {scaling({{"type", "linear"}, {"factor", 4}}), scaling({{"rope_type", "linear"}, {"factor", 4.0}}),
        parameters({{"rope_type", "linear"}, {"factor", 4}})}},
      {"dynamic",
       512,
       2048,
       dynamic_rope(4, 512),
       {scaling({{"type", "dynamic"}, {"factor", 4}}),
        parameters({{"rope_type", "dynamic"}, {"factor", 4}})}},
      {"llama3", 2048, 2048, llama3_rope(8, 1, 4, 256), {scaling(llama3), parameters(llama3)}},
      {"yarn",
       2048,
       2048,
       yarn_rope(4, 512),
       {scaling(typed(yarn, "type", "yarn")), scaling(typed(yarn, "rope_type", "yarn")), scaling(both),
        parameters(typed(yarn, "rope_type", "yarn"))}},
  };
}

TEST(RopeLogits, TheReferenceGivesTheGoldenLogits) {
  const json golden = read_json(kFolder + "/golden.json");
  Checkpoint arrays(kFolder);
  add_safetensors_file(arrays, kFolder + "/golden.safetensors");
  const std::vector<int32_t> ids = golden["prompts"]["mid"]["ids"];
  const auto count = static_cast<int64_t>(ids.size());
  const float* stored = arrays.get("mid.logits_last").as<float>();
  const auto got = Reference().logits(ids, fixed(plain()), {count - 8, count - 1});
  for (int i = 0; i < kVocab; ++i) {
    ASSERT_NEAR(got[0][i], stored[i], 5e-5);
    ASSERT_NEAR(got[1][i], stored[7 * kVocab + i], 5e-5);
  }
}

TEST(RopeLogits, EveryTypeInEverySpelling) {
  const std::vector<int32_t> ids = prompt(1901);
  Reference reference;
  std::vector<std::vector<double>> unscaled;
  for (const RopeCase& c : cases()) {
    const auto want = reference.logits(ids, c.rope, kPositions);
    if (unscaled.empty()) unscaled = want;
    for (const json& spelling : c.spellings) {
      SCOPED_TRACE(str(c.name, " ", spelling.dump()));
      Subject subject(spelling, c.max_positions);
      EXPECT_EQ(subject.config.max_model_len, c.max_length);
      for (size_t p = 0; p < kPositions.size(); ++p) {
        const std::vector<float> got = subject.logits(ids, kPositions[p]);
        double worst = 0, scaling = 0;
        for (int i = 0; i < kVocab; ++i) {
          worst = std::max(worst, std::abs(got[i] - want[p][i]));
          scaling = std::max(scaling, std::abs(want[p][i] - unscaled[p][i]));
        }
        EXPECT_LE(worst, 1e-3) << "position " << kPositions[p];
        if (std::string(c.name) != "default" && kPositions[p] > 512) {
          EXPECT_GT(scaling, 0.1) << "the case does not show its scaling";
        }
      }
    }
  }
}

TEST(RopeLogits, WhatCannotBeMeantIsRefused) {
  auto refusal = [](const json& rope) {
    try {
      Subject::parsed({{"rope_scaling", rope}}, 2048);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal({{"rope_type", "banana"}, {"factor", 2}}).find("banana"), std::string::npos);
  EXPECT_NE(refusal({{"rope_type", "yarn"}, {"type", "linear"}, {"factor", 2}}).find("contradict"),
            std::string::npos);
  for (const char* type : {"linear", "dynamic", "yarn"})
    EXPECT_NE(refusal({{"rope_type", type}, {"factor", 0}}).find("factor"), std::string::npos) << type;
}

}  // namespace
}  // namespace octavo
