// AWQ (Lin et al. 2023, arXiv 2306.00978) as AutoAWQ's gemm version writes it:
//   qweight I32 [k, n/8], qzeros I32 [groups, n/8], scales F16 [groups, n]; w = (q - zero) * scale
// Nibble i of a word is output column kOrder[i] of the word's eight.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "load/quant/scheme.h"

namespace octavo::quant {
namespace {

using nlohmann::json;

/// Position of column c within its word: the inverse of {0, 2, 4, 6, 1, 3, 5, 7}.
constexpr std::array<int, 8> kNibbleOfColumn = {0, 4, 1, 5, 2, 6, 3, 7};

/// Of output `column`, in a row of n / 8 words.
int value(const uint32_t* words, int64_t column) {
  return nibble(words[column / 8], kNibbleOfColumn[column % 8]) - 8;
}

void read_rows(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
               kernels::WeightRows& rows) {
  int8_t* q = reinterpret_cast<int8_t*>(scratch);
  rows.q = q;
  const uint32_t* words = weight.values.as<uint32_t>();
  for (int64_t row = n0; row < n1; ++row)
    for (int64_t k = 0; k < weight.k; ++k) *q++ = static_cast<int8_t>(value(words + k * (weight.n / 8), row));
}

void load(Checkpoint& checkpoint, const QuantScheme&, const std::string& prefix, HostWeight& out) {
  out.values = packed_words(checkpoint, prefix + ".qweight", {out.k, out.n / 8});
  load_group_rows(checkpoint, prefix, 8, value, out);
  out.reader = read_rows;
}

}  // namespace

bool parse_awq(const json& config, const std::string& origin, const std::string& prefix, QuantScheme& out) {
  JsonFields fields(config, origin + ": quantization_config");
  if (prefix == "lm_head") return false;
  if (const json* kept = fields.find({"modules_to_not_convert"}))
    for (const json& part : *kept)
      if (part.is_string() && prefix.find(part.get<std::string>()) != std::string::npos) return false;
  if (fields.integer({"bits", "w_bit"}, 4, 1, 64) != 4)
    throw Error(origin, ": AWQ with other than 4 bits is not supported");
  if (std::string version = fields.text({"version"}, "gemm"); version != "gemm" && version != "GEMM")
    throw Error(origin, ": AWQ version '", version, "' is not supported, only gemm");
  out.symmetric = false;
  out.group = std::max<int64_t>(0, fields.integer({"group_size", "q_group_size"}, 128, -1, 1 << 20));
  out.load = load;
  out.format = kernels::WeightFormat::kW4A16;
  return true;
}

}  // namespace octavo::quant
