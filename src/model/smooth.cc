#include "model/smooth.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "load/host_weight.h"

namespace octavo {
namespace {

using Factors = std::vector<float>;

/// Rows of one or more layers with the same input: [n, k].
struct Weights {
  int64_t n = 0, k = 0;
  std::vector<float> values;
};

class Smoother {
 public:
  Smoother(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx, Calibrator& calibrator,
           const SmoothTarget& target)
      : config_(config), checkpoint_(checkpoint), ctx_(ctx), calibrator_(calibrator), target_(target) {}

  Smoothing run(const std::vector<LinearInfo>& layers) {
    std::map<std::string, const LinearInfo*> known;
    for (const LinearInfo& info : layers)
      for (const LinearInfo::Part& part : info.parts) known[part.name] = &info;
    for (const LinearInfo& info : layers) {
      if (info.role == "qkv_proj") after_norm(info, ".self_attn.", "input_layernorm");
      if (info.role == "gate_up_proj") after_norm(info, ".mlp.", "post_attention_layernorm");
      if (info.role == "o_proj")
        after_layer(info, known, "o_proj", "v_proj", config_.heads / config_.kv_heads);
      if (info.role == "down_proj") after_layer(info, known, "down_proj", "up_proj", 1);
    }
    return std::move(out_);
  }

 private:
  /// Norm -> all parts of a fused layer.
  void after_norm(const LinearInfo& info, const std::string& block, const std::string& norm) {
    const size_t cut = info.parts[0].name.rfind(block);
    if (cut == std::string::npos || config_.norm != NormKind::kRmsNorm) return;
    const std::string tensor = info.parts[0].name.substr(0, cut + 1) + norm + ".weight";
    if (!checkpoint_.find(tensor)) return;
    Weights weights = read(info);
    const std::optional<Factors> found = search(info, weights, 1);
    if (!found) return;
    Factors values = float_tensor(checkpoint_, tensor, {info.k}), factors(info.k, 1.0f);
    for (int64_t j = 0; j < info.k; ++j) {
      // The file holds BF16: what the norm is rounded by goes into the factor, and no error is left.
      const float rounded = to_float(to_bf16(values[j] / (*found)[j])), exact = values[j] / rounded;
      if (!std::isfinite(exact) || exact == 0) continue;
      values[j] = rounded;
      factors[j] = exact;
    }
    out_.norms[tensor] = std::move(values);
    for (const LinearInfo::Part& part : info.parts) out_.columns[part.name] = factors;
  }

  /// Rows of `producer` -> columns of `consumer`; `repeat` heads of the consumer's input read each head that
  /// is produced.
  void after_layer(const LinearInfo& info, const std::map<std::string, const LinearInfo*>& known,
                   const std::string& consumer, const std::string& producer, int64_t repeat) {
    const std::string& name = info.parts[0].name;
    if (!name.ends_with(consumer)) return;
    const std::string from = name.substr(0, name.size() - consumer.size()) + producer;
    if (!known.contains(from)) return;
    Weights weights = read(info);
    const std::optional<Factors> found = search(info, weights, repeat);
    if (!found) return;
    Factors rows;
    const int64_t head = repeat == 1 ? info.k : config_.head_dim;
    for (int64_t j = 0; j < info.k; j += head * repeat)
      rows.insert(rows.end(), found->begin() + j, found->begin() + j + head);
    out_.divisors[from] = std::move(rows);
    out_.columns[name] = *found;
  }

  Weights read(const LinearInfo& info) {
    Weights out{0, info.k, {}};
    for (const LinearInfo::Part& part : info.parts) {
      const HostWeight weight = linear_weight(checkpoint_, config_, part.name, part.n, info.k);
      out.values.resize((out.n + part.n) * info.k);
      float* to = out.values.data() + out.n * info.k;
      const float* from = weight.read_plain(0, part.n, to);
      if (from != to) std::copy(from, from + part.n * info.k, to);
      out.n += part.n;
    }
    return out;
  }

  /// The largest magnitude of each column; heads that share their factor get the largest of all.
  void tie(Factors& values, int64_t repeat) const {
    if (repeat == 1) return;
    const int64_t head = config_.head_dim;
    for (size_t j = 0; j < values.size(); j += head * repeat)
      for (int64_t i = 0; i < head; ++i) {
        float top = 0;
        for (int64_t r = 0; r < repeat; ++r) top = std::max(top, values[j + r * head + i]);
        for (int64_t r = 0; r < repeat; ++r) values[j + r * head + i] = top;
      }
  }

  std::optional<Factors> search(const LinearInfo& info, const Weights& weights, int64_t repeat) {
    const InputStatistics* input = calibrator_.input(info.parts[0].name);
    if (!input) return std::nullopt;
    constexpr float kLeast = 1e-5f;
    Factors x = input->absmax, w(info.k, kLeast);
    for (int64_t i = 0; i < weights.n; ++i)
      for (int64_t j = 0; j < info.k; ++j) w[j] = std::max(w[j], std::abs(weights.values[i * info.k + j]));
    for (float& value : x) value = std::max(value, kLeast);
    tie(x, repeat);
    tie(w, repeat);
    const std::vector<float> reference = outputs(*input, weights, nullptr);
    double least = error(reference, outputs_rounded(*input, weights, Factors(info.k, 1.0f)));
    std::optional<Factors> best;
    for (float alpha : {0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f}) {
      Factors factors(info.k);
      for (int64_t j = 0; j < info.k; ++j) factors[j] = std::pow(x[j], alpha) / std::pow(w[j], 1 - alpha);
      const auto [low, high] = std::minmax_element(factors.begin(), factors.end());
      const float middle = std::sqrt(*low) * std::sqrt(*high);
      for (float& factor : factors) factor /= middle;
      const double now = error(reference, outputs_rounded(*input, weights, factors));
      if (now < least) least = now, best = std::move(factors);
    }
    return best;
  }

  /// samples W^T in float32, [rows, n]; x replaces the samples unless null.
  std::vector<float> outputs(const InputStatistics& input, const Weights& weights, const float* x) {
    std::vector<float> y(input.rows() * weights.n);
    LinearPart part{kernels::WeightFormat::kF32, {weights.n, weights.k, weights.k}, {}, {}};
    part.rows = [&](int64_t n0, int64_t, float*, kernels::WeightRows& rows) {
      rows.values = weights.values.data() + n0 * weights.k;
    };
    linear(ctx_, Linear::build(ctx_, {part}), x ? x : input.samples.data(), weights.k, input.rows(), y.data(),
           weights.n);
    return y;
  }

  /// The same as the quantised model will compute it, up to sums of exact products.
  std::vector<float> outputs_rounded(const InputStatistics& input, const Weights& weights, const Factors& s) {
    const int64_t k = weights.k;
    Weights rounded{weights.n, k, std::vector<float>(weights.n * k)};
    std::vector<float> x(input.samples.size());
    for_rows(weights.n, [&](int64_t row) {
      float* to = rounded.values.data() + row * k;
      for (int64_t j = 0; j < k; ++j) to[j] = weights.values[row * k + j] * s[j];
      round_in_place(target_.rounding, to, k);
    });
    for_rows(input.rows(), [&](int64_t row) {
      float* to = x.data() + row * k;
      for (int64_t j = 0; j < k; ++j) to[j] = input.samples[row * k + j] / s[j];
      if (target_.int8_activations) round_in_place({quant::Element::kInt8}, to, k);
    });
    return outputs(input, rounded, x.data());
  }

  template <class F>
  void for_rows(int64_t rows, const F& fn) {
    constexpr int64_t kStep = 8;
    ctx_.team.run(static_cast<int>((rows + kStep - 1) / kStep), [&](int piece, int) {
      for (int64_t r = piece * kStep; r < std::min(rows, (piece + 1) * kStep); ++r) fn(r);
    });
  }

  static void round_in_place(const quant::Rounding& rounding, float* x, int64_t k) {
    const int64_t group = rounding.group ? rounding.group : k;
    std::vector<int8_t> q(k);
    std::vector<float> scales(k / group);
    if (!quant::round_row(rounding, x, k, q.data(), scales.data()))
      return;  // the writer names what is not finite
    for (int64_t j = 0; j < k; ++j) x[j] = quant::decoded(rounding.element, q[j]) * scales[j / group];
  }

  /// Squared error of outputs. Rows count as they are: capping those of much energy (first tokens of a text,
  /// a thousand times larger before a residual) at the median gave W8A8 17.83 instead of 17.23.
  static double error(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::isfinite(sum) ? sum : INFINITY;
  }

  const ModelConfig& config_;
  Checkpoint& checkpoint_;
  OpContext& ctx_;
  Calibrator& calibrator_;
  const SmoothTarget target_;
  Smoothing out_;
};

}  // namespace

Smoothing find_smoothing(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx,
                         Calibrator& calibrator, const std::vector<LinearInfo>& layers,
                         const SmoothTarget& target) {
  return Smoother(config, checkpoint, ctx, calibrator, target).run(layers);
}

}  // namespace octavo
