#include "model/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "base/error.h"

namespace octavo {
namespace {

using kernels::KvFormat;

/// The model on one sequence at a time: keys in float32, blocks in order.
class WindowRunner {
 public:
  WindowRunner(Model& model, OpContext& ctx, int64_t window) : model_(model), ctx_(ctx) {
    const ModelInfo& info = model.info();
    const kernels::AttentionKernel& kernel = ctx.kernels.attention[static_cast<int>(KvFormat::kF32)];
    blocks_ = (window + kBlock - 1) / kBlock;
    const int64_t groups = static_cast<int64_t>(info.kv_groups.size());
    const int64_t head_bytes = kernel.head_bytes(kBlock, info.head_dim);
    int regions = 0;
    for (const KvGroupSpec& group : info.kv_groups) regions = std::max(regions, group.layers);
    kv_.format = KvFormat::kF32;
    for (int i = 0; i < regions; ++i) {
      memory_.emplace_back(groups * blocks_ * head_bytes * info.kv_heads);
      kv_.regions.push_back({memory_.back().data(), head_bytes, info.kv_heads, kBlock, info.head_dim});
    }
    tables_.resize(groups * blocks_);
    std::iota(tables_.begin(), tables_.end(), 0);
    logits_.resize(window * info.vocab);
  }

  void run(const int32_t* ids, int tokens) {
    std::vector<int32_t> positions(tokens);
    std::iota(positions.begin(), positions.end(), 0);
    std::vector<std::vector<int32_t>> slots;
    std::vector<KvGroupStep> groups;
    for (size_t g = 0; g < model_.info().kv_groups.size(); ++g) {
      const int32_t* table = tables_.data() + g * blocks_;
      slots.emplace_back();
      for (int t = 0; t < tokens; ++t) slots.back().push_back(table[t / kBlock] * kBlock + t % kBlock);
      groups.push_back({table, blocks_, slots.back().data()});
    }
    const int32_t start[2] = {0, tokens}, context = tokens;
    // All logits are asked for, since models skip the last layer's MLP for the other rows.
    const StepInput input{tokens,        ids,    positions.data(), 1, start, &context,
                          groups.data(), tokens, positions.data()};
    model_.forward(ctx_, input, kv_, logits_.data());
  }

 private:
  static constexpr int kBlock = 32;
  Model& model_;
  OpContext& ctx_;
  int64_t blocks_;
  KvStore kv_{};
  std::vector<PackedBuffer> memory_;
  std::vector<int32_t> tables_;
  std::vector<float> logits_;
};

/// product [k, k] += x^T x: the columns of x as weights and as inputs, so that it runs at the speed of a
/// prefill in float32.
void add_product(OpContext& ctx, int64_t k, const float* x, int64_t ldx, int64_t m, float* product) {
  std::vector<float> columns(k * m);
  const int64_t step = 64;
  ctx.team.run(static_cast<int>((k + step - 1) / step), [&](int piece, int) {
    for (int64_t j = piece * step; j < std::min(k, (piece + 1) * step); ++j)
      for (int64_t r = 0; r < m; ++r) columns[j * m + r] = x[r * ldx + j];
  });
  LinearPart part{kernels::WeightFormat::kF32, {k, m, m}, {}, {}};
  part.rows = [&](int64_t n0, int64_t, float*, kernels::WeightRows& rows) {
    rows.values = columns.data() + n0 * m;
  };
  linear(ctx, Linear::build(ctx, {part}), columns.data(), m, k, product, k, /*accumulate=*/true);
}

}  // namespace

class Calibrator::Observer final : public LinearObserver {
 public:
  Observer(const std::vector<LinearInfo>& linears, OpContext ctx) : ctx_(ctx) {
    ctx_.observer = nullptr;
    for (size_t i = 0; i < linears.size(); ++i) index_[linears[i].linear] = i;
    seen_.resize(linears.size());
  }
  void collect_inputs(std::vector<InputStatistics>* inputs, int64_t sample_every) {
    inputs_ = inputs;
    every_ = std::max<int64_t>(1, sample_every) | 1;  // odd: not the same positions of every window
  }
  void collect_products(std::map<size_t, std::vector<float>>* products) { products_ = products; }

  void observe(const Linear& weights, const float* x, int64_t ldx, int64_t m) override {
    const auto found = index_.find(&weights);
    if (found == index_.end()) return;
    const size_t i = found->second;
    if (inputs_) add_inputs((*inputs_)[i], x, ldx, m, seen_[i]);
    seen_[i] += m;
    if (!products_) return;
    if (const auto product = products_->find(i); product != products_->end())
      add_product(ctx_, weights.k, x, ldx, m, product->second.data());
  }

 private:
  void add_inputs(InputStatistics& input, const float* x, int64_t ldx, int64_t m, int64_t seen) const {
    for (int64_t r = 0; r < m; ++r, x += ldx) {
      for (int64_t j = 0; j < input.k; ++j) input.absmax[j] = std::max(input.absmax[j], std::abs(x[j]));
      if ((seen + r) % every_ == 0) input.samples.insert(input.samples.end(), x, x + input.k);
    }
  }

  OpContext ctx_;
  std::unordered_map<const Linear*, size_t> index_;
  std::vector<int64_t> seen_;
  std::vector<InputStatistics>* inputs_ = nullptr;
  int64_t every_ = 1;
  std::map<size_t, std::vector<float>>* products_ = nullptr;
};

Calibrator::Calibrator(Model& model, OpContext& ctx, std::vector<int32_t> ids, CalibrationOptions options)
    : model_(model), ctx_(ctx), ids_(std::move(ids)), options_(std::move(options)) {
  if (ids_.size() < 2) throw Error("calibration needs a text of at least two tokens");
  const std::vector<LinearInfo>& linears = model.info().linears;
  for (size_t i = 0; i < linears.size(); ++i)
    for (const LinearInfo::Part& part : linears[i].parts) index_[part.name] = i;
}

Calibrator::~Calibrator() = default;

size_t Calibrator::index_of(const std::string& part) const {
  const auto found = index_.find(part);
  OCTAVO_CHECK(found != index_.end(), part);
  return found->second;
}

void Calibrator::run(Observer& observer) {
  ctx_.observer = &observer;
  const int64_t window = std::min({options_.window, model_.info().max_model_len, tokens()});
  WindowRunner runner(model_, ctx_, window);
  for (int64_t at = 0; at < tokens(); at += window) {
    const int64_t count = std::min(window, tokens() - at);
    runner.run(ids_.data() + at, static_cast<int>(count));
    options_.ran(count);
  }
  ctx_.observer = nullptr;
}

const InputStatistics* Calibrator::input(const std::string& part) {
  const size_t index = index_of(part);
  if (!has_inputs_) {
    has_inputs_ = true;
    for (const LinearInfo& info : model_.info().linears)
      inputs_.push_back({info.k, std::vector<float>(info.k), {}});
    Observer observer(model_.info().linears, ctx_);
    observer.collect_inputs(&inputs_, tokens() / options_.sample_rows);
    run(observer);
  }
  return inputs_[index].samples.empty() ? nullptr : &inputs_[index];
}

const std::vector<float>* Calibrator::product(const std::string& part) {
  const size_t index = index_of(part);
  if (!products_.contains(index)) {
    const std::vector<LinearInfo>& linears = model_.info().linears;
    products_.clear();
    size_t bytes = 0;
    for (size_t i = index; i < linears.size(); ++i) {
      const size_t more = linears[i].k * linears[i].k * sizeof(float);
      if (i > index && bytes + more > options_.product_bytes) break;
      bytes += more;
      products_[i].resize(linears[i].k * linears[i].k);
    }
    Observer observer(linears, ctx_);
    observer.collect_products(&products_);
    run(observer);
  }
  return &products_[index];
}

}  // namespace octavo
