#include "model/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <set>

#include "load/quant/scheme.h"
#include "model/compensate.h"
#include "model/smooth.h"

namespace octavo {
namespace {

/// What the fills of one plan share.
struct Work {
  const ModelConfig& config;
  Checkpoint& checkpoint;
  OpContext& ctx;
  const QuantiseOptions options;
  Calibrator* calibrator;
  Smoothing smoothing{};
  std::string compensated{};  ///< first part of the layer that `compensation` is of
  std::unique_ptr<Compensation> compensation{};

  quant::Rounding rounding() const {
    return {options.scheme.element, options.group, options.scales, quant::ScaleFormat::kBF16};
  }
};

const std::vector<float>* find(const std::map<std::string, std::vector<float>>& map,
                               const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

/// Rows [n0, n1) with the smoothing factors applied, into out.
void read_smoothed(const Work& work, const std::string& layer, const HostWeight& weight, int64_t n0,
                   int64_t n1, float* out) {
  const int64_t k = weight.k;
  const float* from = weight.read_plain(n0, n1, out);
  const std::vector<float>*columns = find(work.smoothing.columns, layer),
        *divisors = find(work.smoothing.divisors, layer);
  for (int64_t row = n0; row < n1; ++row)
    for (int64_t j = 0; j < k; ++j) {
      float value = from[(row - n0) * k + j];
      if (columns) value *= (*columns)[j];
      if (divisors) value /= (*divisors)[row];
      if (!std::isfinite(value))
        throw Error(work.checkpoint.origin(), ": tensor '", weight.name,
                    "' has a value that is not finite, in row ", row);
      out[(row - n0) * k + j] = value;
    }
}

/// Parts of a fused layer follow one another: the factorisation of the last one is kept.
const Compensation& compensation_of(Work& work, const LinearInfo& info) {
  const std::string& first = info.parts[0].name;
  if (work.compensated == first) return *work.compensation;
  const std::vector<float>* factors = nullptr;
  for (const LinearInfo::Part& part : info.parts)
    if (!factors) factors = find(work.smoothing.columns, part.name);
  work.compensation.reset();  // first, so that two never lie in memory
  work.compensation =
      std::make_unique<Compensation>(*work.calibrator->product(first),
                                     factors ? *factors : std::vector<float>{}, info.k, work.options.group);
  work.compensated = first;
  return *work.compensation;
}

void fill_layer(Work& work, const LinearInfo& info, const LinearInfo::Part& part,
                const std::vector<std::byte*>& out) {
  const int64_t n = part.n, k = info.k, group = work.options.group, groups = group ? k / group : 1;
  const HostWeight weight = linear_weight(work.checkpoint, work.config, part.name, n, k);
  std::vector<float> values(n * k), scales(n * groups);
  std::vector<int8_t> q(n * k);
  constexpr int64_t kStep = 16;
  std::vector<std::exception_ptr> errors((n + kStep - 1) / kStep);
  work.ctx.team.run(static_cast<int>(errors.size()), [&](int piece, int) {
    const int64_t n0 = piece * kStep, n1 = std::min(n, n0 + kStep);
    try {
      read_smoothed(work, part.name, weight, n0, n1, values.data() + n0 * k);
    } catch (...) {
      errors[piece] = std::current_exception();
      return;
    }
    if (work.calibrator) return;
    for (int64_t row = n0; row < n1; ++row)
      quant::round_row(work.rounding(), values.data() + row * k, k, q.data() + row * k,
                       scales.data() + row * groups);
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (work.calibrator)
    compensation_of(work, info).round(work.ctx, work.rounding(), values.data(), n, q.data(), scales.data());
  quant::store(work.options.scheme, n, k, group, q.data(), scales.data(), out);
}

/// float32 values as `dtype` has them.
void store_floats(const std::vector<float>& values, DType dtype, std::byte* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, values.data(), values.size() * sizeof(float));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const BFloat16 rounded = to_bf16(values[i]);
    std::memcpy(out + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

/// A tensor that stays, or that smoothing changed: a norm, or the bias of a layer whose rows are divided.
OutputGroup other_tensor(const std::shared_ptr<Work>& work, const std::string& name) {
  const TensorInfo& stored = *work->checkpoint.find(name);
  std::vector<float> changed;
  if (const auto* norm = find(work->smoothing.norms, name)) changed = *norm;
  const std::string bias = ".bias";
  if (name.ends_with(bias))
    if (const auto* divisors = find(work->smoothing.divisors, name.substr(0, name.size() - bias.size()))) {
      changed = float_tensor(work->checkpoint, name, stored.shape);
      for (size_t i = 0; i < changed.size(); ++i) changed[i] /= (*divisors)[i];
    }
  if (changed.empty())
    return {{{name, stored.dtype, stored.shape}}, [work, name](const std::vector<std::byte*>& out) {
              const TensorView view = work->checkpoint.get(name);
              std::memcpy(out[0], view.data, view.shape.elements() * info(view.dtype).block_bytes);
            }};
  const DType dtype = stored.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
  return {{{name, dtype, stored.shape}},
          [changed = std::move(changed), dtype](const std::vector<std::byte*>& out) {
            store_floats(changed, dtype, out[0]);
          }};
}

/// Error if the format cannot hold the layer.
void check_layer(const Work& work, const LinearInfo& info, const LinearInfo::Part& part) {
  const QuantiseOptions& o = work.options;
  const std::string where = str(work.checkpoint.origin(), ": layer '", part.name, "'");
  if (part.transposed) throw Error(where, " is stored as [in, out], which compressed-tensors does not know");
  const int64_t group = o.group ? o.group : info.k;
  if (info.k % group)
    throw Error(where, " has ", info.k, " inputs, no multiple of --group-size ", group,
                "; choose another, or --ignore the layer");
  const HostWeight weight = linear_weight(work.checkpoint, work.config, part.name, part.n, info.k);
  if (weight.reader || octavo::info(weight.values.dtype).block_elements > 1)
    throw Error(where, " is quantised already");
}

/// The parts of each linear layer that are to be quantised.
std::vector<LinearInfo> choose_layers(const Work& work, QuantisePlan& plan) {
  std::vector<LinearInfo> out;
  for (LinearInfo info : list_linears(work.config, work.checkpoint, work.ctx)) {
    std::erase_if(info.parts, [&](const LinearInfo::Part& part) {
      const bool tied = info.role == "lm_head" && part.name != "lm_head";  // the embedding's tensor
      const bool ignored = tied || std::ranges::any_of(work.options.ignore, [&](const std::string& pattern) {
                             return names_layer(pattern, part.name);
                           });
      if (ignored) plan.ignored.push_back(tied ? "lm_head" : part.name);
      if (!ignored) check_layer(work, info, part);
      return ignored;
    });
    if (!info.parts.empty()) out.push_back(std::move(info));
  }
  return out;
}

}  // namespace

QuantisePlan plan_quantised(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx,
                            const QuantiseOptions& options, Calibrator* calibrator) {
  if (config.quantization) throw Error(config.origin, ": the model is quantised already");
  QuantisePlan plan;
  auto work = std::make_shared<Work>(Work{config, checkpoint, ctx, options, calibrator});
  const std::vector<LinearInfo> layers = choose_layers(*work, plan);
  if (layers.empty()) throw Error(checkpoint.origin(), ": no layer is left to quantise");
  checkpoint.finish();
  if (calibrator && options.scheme.element != quant::Element::kE4M3)
    work->smoothing = find_smoothing(config, checkpoint, ctx, *calibrator, layers,
                                     {work->rounding(), options.scheme.int8_activations});
  std::set<std::string> replaced;
  for (const LinearInfo& info : layers)
    for (const LinearInfo::Part& part : info.parts) {
      replaced.insert(part.name + ".weight");
      plan.groups.push_back(
          {quant::output_tensors(options.scheme, part.name, part.n, info.k, options.group),
           [work, info, part](const std::vector<std::byte*>& out) { fill_layer(*work, info, part, out); }});
      ++plan.layers;
    }
  for (const std::string& name : checkpoint.names())
    if (!replaced.contains(name)) plan.groups.push_back(other_tensor(work, name));
  return plan;
}

}  // namespace octavo
