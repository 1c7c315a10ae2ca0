#define PCRE2_CODE_UNIT_WIDTH 8
#include "load/quant/scheme.h"

#include <pcre2.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "load/dequantise.h"
#include "load/json.h"

namespace octavo {
namespace {

struct Method {
  const char* name;
  bool (*parse)(const nlohmann::json&, const std::string&, const std::string&, QuantScheme&);
};

constexpr Method kMethods[] = {
    {"compressed-tensors", quant::parse_compressed_tensors},
    {"awq", quant::parse_awq},
    {"gptq", quant::parse_gptq},
    {"fp8", quant::parse_fp8},
};

/// Backtracking steps of one match. Published patterns take some tens.
constexpr uint32_t kMatchLimit = 100'000;

/// Python's re.match. Not std::regex: it recurses over the pattern and backtracks without a limit, so that a
/// config could overflow the stack or keep the loader busy for ever.
bool matches(const std::string& pattern, const std::string& text) {
  auto fail = [&](const char* why, int code) {
    PCRE2_UCHAR message[120] = {};
    pcre2_get_error_message(code, message, sizeof message);
    throw Error("quantization_config: the regular expression '", pattern.substr(0, 100), "' ", why, ": ",
                reinterpret_cast<const char*>(message));
  };
  int code = 0;
  PCRE2_SIZE at = 0;
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> compiled(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr),
      pcre2_code_free);
  if (!compiled) fail("does not compile", code);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  pcre2_set_match_limit(context.get(), kMatchLimit);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  code = pcre2_match(compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data.get(),
                     context.get());
  if (code < 0 && code != PCRE2_ERROR_NOMATCH) fail("cannot be matched", code);
  return code >= 0;
}

}  // namespace

bool names_layer(const std::string& pattern, const std::string& prefix) {
  if (pattern.starts_with("re:")) return matches(pattern.substr(3), prefix);
  if (pattern == prefix) return true;
  return prefix.size() > pattern.size() && prefix.ends_with(pattern) &&
         prefix[prefix.size() - pattern.size() - 1] == '.';
}

bool find_scheme(const nlohmann::json& config, const std::string& origin, const std::string& prefix,
                 QuantScheme& out) {
  JsonFields fields(config, origin);
  std::string method = fields.text({"quant_method"}, ""), known;
  for (const Method& row : kMethods) {
    if (method == row.name) return row.parse(config, origin, prefix, out);
    known += std::string(known.empty() ? "" : ", ") + row.name;
  }
  throw Error(origin, ": quantization_config.quant_method '", method,
              "' is not supported; supported are: ", known);
}

namespace quant {

std::byte* allocate(HostWeight& out, size_t bytes) {
  return out.owned.emplace_back(std::make_shared<std::byte[]>(bytes)).get();
}

int64_t block_side(const JsonFields& fields, const char* key, int axis) {
  constexpr int64_t kMaxSide = 1 << 20;
  const nlohmann::json* block = fields.find({key});
  const bool valid = block && block->is_array() && block->size() == 2 &&
                     std::ranges::all_of(*block, [](const nlohmann::json& side) {
                       return side.is_number_integer() && side >= 1 && side <= kMaxSide;
                     });
  if (!valid) fields.fail({key}, "two positive integers");
  return (*block)[axis].get<int64_t>();
}

TensorView packed_words(Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  if (!checkpoint.find(name)) throw Error(checkpoint.origin(), ": tensor '", name, "' is missing");
  const TensorView out = checkpoint.require(name, shape);
  if (out.dtype != DType::kI32 && out.dtype != DType::kU32)
    throw Error(checkpoint.origin(), ": tensor '", name, "' is ", octavo::name(out.dtype), ", expected I32");
  return out;
}

std::vector<float> finite_scales(Checkpoint& checkpoint, const std::string& name, const TensorView& stored) {
  if (!holds_floats(stored.dtype))
    throw Error(checkpoint.origin(), ": tensor '", name, "' has dtype ", octavo::name(stored.dtype),
                ", expected a float type");
  std::vector<float> values = dequantise(stored);
  for (float value : values)
    if (!std::isfinite(value))
      throw Error(checkpoint.origin(), ": tensor '", name, "' holds a scale that is not finite");
  return values;
}

void load_scales(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix,
                 HostWeight& out) {
  const std::string name = prefix + "." + scheme.scale_name;
  const TensorView stored = checkpoint.get(name);
  const std::vector<float> values = finite_scales(checkpoint, name, stored);
  const int64_t groups = out.k / out.group,
                columns = scheme.group > 0 ? (out.k + scheme.group - 1) / scheme.group : 1;
  const int64_t rows = scheme.group < 0 ? 1 : (out.n + scheme.group_rows - 1) / scheme.group_rows;
  if (static_cast<int64_t>(values.size()) != rows * columns)
    throw Error(checkpoint.origin(), ": tensor '", name, "' has shape ", stored.shape.text(), ", expected ",
                rows, " x ", columns, " scales");
  float* scales = reinterpret_cast<float*>(allocate(out, out.n * groups * sizeof(float)));
  for (int64_t row = 0; row < out.n; ++row)
    for (int64_t g = 0; g < groups; ++g)
      scales[row * groups + g] =
          values[(rows == 1 ? 0 : row / scheme.group_rows) * columns + (columns == 1 ? 0 : g)];
  out.scales = {DType::kF32, {out.n, groups}, reinterpret_cast<std::byte*>(scales)};
}

void load_group_rows(Checkpoint& checkpoint, const std::string& prefix, int64_t per_word,
                     const std::function<int(const uint32_t* words, int64_t column)>& zero, HostWeight& out) {
  const int64_t groups = out.k / out.group, words = out.n / per_word;
  const std::string name = prefix + ".scales";
  const std::vector<float> stored =
      finite_scales(checkpoint, name, checkpoint.require(name, {groups, out.n}));
  const uint32_t* packed = packed_words(checkpoint, prefix + ".qzeros", {groups, words}).as<uint32_t>();
  float* scales = reinterpret_cast<float*>(allocate(out, out.n * groups * sizeof(float)));
  int8_t* zeros = reinterpret_cast<int8_t*>(allocate(out, out.n * groups));
  bool any_zero = false;
  for (int64_t row = 0; row < out.n; ++row)
    for (int64_t g = 0; g < groups; ++g) {
      scales[row * groups + g] = stored[g * out.n + row];
      zeros[row * groups + g] = static_cast<int8_t>(std::min(zero(packed + g * words, row), INT8_MAX));
      any_zero = any_zero || zeros[row * groups + g] != 0;
    }
  out.scales = {DType::kF32, {out.n, groups}, reinterpret_cast<std::byte*>(scales)};
  if (any_zero) out.zeros = {DType::kI8, {out.n, groups}, reinterpret_cast<std::byte*>(zeros)};
}

void load_group_order(Checkpoint& checkpoint, const std::string& name, HostWeight& out) {
  const TensorView stored = checkpoint.require(name, {out.k});
  if (stored.dtype != DType::kI32) throw Error(checkpoint.origin(), ": tensor '", name, "' is not I32");
  const int32_t* g_idx = stored.as<int32_t>();
  const int64_t groups = out.k / out.group;
  std::vector<int64_t> count(groups);
  for (int64_t i = 0; i < out.k; ++i) {
    if (g_idx[i] < 0 || g_idx[i] >= groups)
      throw Error(checkpoint.origin(), ": tensor '", name, "' names group ", g_idx[i], " of ", groups);
    ++count[g_idx[i]];
  }
  for (int64_t size : count)
    if (size != out.group)
      throw Error(checkpoint.origin(), ": tensor '", name, "' has groups of uneven size");
  if (std::is_sorted(g_idx, g_idx + out.k)) return;
  out.permutation.resize(out.k);
  std::iota(out.permutation.begin(), out.permutation.end(), 0);
  std::stable_sort(out.permutation.begin(), out.permutation.end(),
                   [&](int32_t a, int32_t b) { return g_idx[a] < g_idx[b]; });
}

}  // namespace quant
}  // namespace octavo
