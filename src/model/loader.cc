#include "model/loader.h"

#include <algorithm>
#include <cstring>

#include "load/dequantise.h"
#include "load/quant/int8_activations.h"
#include "model/rope.h"

namespace octavo {
namespace {

using kernels::WeightFormat;

/// Tensors that published checkpoints carry and no forward reads: tables that are computed, masks of old
/// exports.
bool is_harmless(const std::string& name) {
  for (const char* end : {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attention.bias"})
    if (name.ends_with(end)) return true;
  return false;
}

}  // namespace

Loader::Loader(OpContext& ctx, const ModelConfig& config, Checkpoint& checkpoint, const LoadOptions& options)
    : ctx_(ctx), config_(config), checkpoint_(checkpoint), options_(options) {
  OCTAVO_CHECK(options.dtype == WeightFormat::kF32 || options.dtype == WeightFormat::kBF16);
  if (options_.max_model_len == 0) options_.max_model_len = config.max_model_len;
  if (config.learned_positions)
    options_.max_model_len = std::min(options_.max_model_len, config.max_position_embeddings);
}

std::string Loader::prefix(std::initializer_list<const char*> candidates, const std::string& tensor) const {
  for (const char* candidate : candidates)
    if (checkpoint_.find(candidate + tensor)) return candidate;
  return *candidates.begin();
}

void Loader::linear(Linear& to, const std::string& role, int64_t k, const std::vector<Matrix>& parts) {
  Pending pending{&to, role, k, {}, {}};
  for (const Matrix& part : parts) {
    WeightLayout layout = part.transposed ? WeightLayout::kConv1d : WeightLayout::kLinear;
    pending.weights.push_back(linear_weight(checkpoint_, config_, part.name, part.n, k, layout));
    if (options_.quantisation) quantise_online(*options_.quantisation, role, pending.weights.back());
    if (options_.int8_blocks) use_int8_blocks(pending.weights.back());
    if (options_.int8_activations) use_int8_activations(pending.weights.back());
    pending.biases.emplace_back();
    if (part.bias) vector(pending.biases.back(), part.name + ".bias", part.n);
  }
  linears_.push_back(std::move(pending));
}

void Loader::vector(std::vector<float>& to, const std::string& name, int64_t n) {
  to = float_tensor(checkpoint_, name, {n});
}

void Loader::embedding(Embedding& to, const std::string& name, int64_t rows, int64_t width) {
  HostWeight weight = linear_weight(checkpoint_, config_, name, rows, width);
  const DType dtype = weight.values.dtype;
  to.table = {weight.values.data, dtype == DType::kBF16, rows, width, weight.values.row_bytes()};
  if (!weight.reader && (dtype == DType::kBF16 || dtype == DType::kF32)) return;
  if (!options_.decode_weights && !weight.reader &&
      row_decoder(dtype)) {  // rows are decoded where they lie, when they are looked up
    to.table.decode = row_decoder(dtype);
    to.table.row_blocks = width / info(dtype).block_elements;
    return;
  }
  weight.format = options_.dtype;
  embeddings_.emplace_back(&to, std::move(weight));
}

RopeTable Loader::rope_table(const RopeConfig& rope) {
  // A config may claim 2^31 positions and scale them up; a table of so many would take all memory.
  constexpr int64_t kMaxPositions = int64_t{1} << 24;
  if (options_.max_model_len > kMaxPositions)
    throw Error(config_.origin, ": a model length of ", options_.max_model_len, " positions, at most ",
                kMaxPositions, " are supported: give a lower --max-model-len");
  return octavo::rope_table(ctx_, rope, config_.head_dim, options_.max_model_len);
}

void Loader::kv_layer(int64_t window, int* group, int* index) {
  auto found =
      std::find_if(kv_groups_.begin(), kv_groups_.end(), [&](const auto& g) { return g.window == window; });
  if (found == kv_groups_.end()) found = kv_groups_.insert(found, {0, window});
  *group = static_cast<int>(found - kv_groups_.begin());
  *index = found->layers++;
}

/// Plain weights run in the format that was asked for, a quantised scheme or GGUF block type in the one it
/// was made for. What no kernel runs as it is gets decoded and runs as a plain weight; ModelInfo::kernels
/// tells.
WeightFormat Loader::execution_format(const HostWeight& weight) const {
  if (options_.decode_weights || !weight.runs_as_stored()) return options_.dtype;
  const bool runs = ctx_.kernels.linear[static_cast<int>(weight.format)].run != nullptr;
  if (options_.quantisation && !runs)
    throw Error("--quantization ", options_.quantisation->name, ": ", ctx_.kernels.isa,
                " has no kernel for it");
  return runs ? weight.format : options_.dtype;
}

/// The one order of inputs (act-order) in which all parts can run, or empty: those with an order of their own
/// must then be decoded.
std::vector<int32_t> Loader::shared_permutation(const Pending& pending) const {
  const std::vector<int32_t>& first = pending.weights[0].permutation;
  for (const HostWeight& weight : pending.weights)
    if (weight.permutation != first || execution_format(weight) != weight.format) return {};
  return first;
}

Linear Loader::pack(Pending& pending) {
  std::vector<LinearPart> parts;
  const std::vector<int32_t> permutation = shared_permutation(pending);
  for (size_t i = 0; i < pending.weights.size(); ++i) {
    HostWeight& weight = pending.weights[i];
    const bool ordered = weight.permutation == permutation;
    weight.format = ordered ? execution_format(weight) : options_.dtype;
    auto rows = [&weight](int64_t n0, int64_t n1, float* scratch, kernels::WeightRows& out) {
      weight.read_rows(n0, n1, scratch, out);
    };
    parts.push_back({weight.format, weight.shape(), rows, std::move(pending.biases[i]),
                     options_.dtype == WeightFormat::kBF16});
  }
  return Linear::build(ctx_, parts, permutation);
}

/// A table in a checkpoint's quantised scheme has no row kernel: it is decoded once, to the asked format. So
/// are the block types of GGUF if decode_weights asks for it.
void Loader::copy_embedding(Embedding& to, const HostWeight& weight) {
  const bool bf16 = options_.dtype == WeightFormat::kBF16;
  const int64_t row_bytes = weight.k * (bf16 ? 2 : 4);
  to.owned.resize(weight.n * row_bytes);
  constexpr int64_t kRows = 64;
  ctx_.team.run(static_cast<int>((weight.n + kRows - 1) / kRows), [&](int piece, int) {
    const int64_t first = piece * kRows, last = std::min(weight.n, first + kRows);
    std::vector<float> scratch((last - first) * weight.k);
    kernels::WeightRows rows;
    weight.read_rows(first, last, scratch.data(), rows);
    std::byte* out = to.owned.data() + first * row_bytes;
    if (bf16)
      ctx_.kernels.elementwise.f32_to_bf16(rows.values, (last - first) * weight.k,
                                           reinterpret_cast<uint16_t*>(out));
    else
      std::memcpy(out, rows.values, (last - first) * row_bytes);
  });
  to.table = {to.owned.data(), bf16, weight.n, weight.k, row_bytes};
}

LinearInfo Loader::describe(const Pending& pending) {
  LinearInfo out{pending.role, pending.to, pending.k, {}};
  for (size_t i = 0; i < pending.weights.size(); ++i) {
    const HostWeight& weight = pending.weights[i];
    const std::string layer = weight.name.substr(0, weight.name.size() - std::string(".weight").size());
    out.parts.push_back({layer, weight.n, !pending.biases[i].empty(), weight.transposed});
  }
  return out;
}

ModelInfo Loader::finish() {
  ModelInfo info{};
  for (std::string& name : checkpoint_.finish())
    if (!is_harmless(name) && !(config_.tie_word_embeddings && name == "lm_head.weight"))
      info.ignored_tensors.push_back(std::move(name));

  for (const Pending& pending : linears_) info.linears.push_back(describe(pending));
  if (options_.bind_only) return info;
  std::map<std::string, int> counts;  // "qkv_proj": layers
  std::vector<std::string> order;
  for (Pending& pending : linears_) {
    *pending.to = pack(pending);
    info.weight_bytes += pending.to->bytes();
    for (const LinearSegment& segment : pending.to->segments) {
      const std::string key = pending.role + "\n" + segment.kernel->name;
      if (counts[key]++ == 0) order.push_back(key);
    }
  }
  for (const auto& [to, weight] : embeddings_) {
    copy_embedding(*to, weight);
    info.weight_bytes += to->owned.size();
  }
  linears_.clear();
  checkpoint_.drop_reordered();
  for (const std::string& key : order) {
    const size_t cut = key.find('\n');
    info.kernels.push_back(str(key.substr(0, cut), " x", counts[key], ": ", key.substr(cut + 1)));
  }
  info.architecture = config_.architecture;
  info.vocab = config_.vocab;
  info.hidden = config_.hidden;
  info.layers = config_.layers;
  info.max_model_len = options_.max_model_len;
  info.kv_heads = static_cast<int>(config_.kv_heads);
  info.head_dim = static_cast<int>(config_.head_dim);
  info.kv_groups = kv_groups_;
  return info;
}

}  // namespace octavo
