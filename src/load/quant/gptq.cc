// GPTQ (Frantar et al. 2022, arXiv 2210.17323) as AutoGPTQ and GPTQModel write it:
//   qweight I32 [k * bits / 32, n]  packed along k, low bits first
//   qzeros  I32 [groups, n * bits / 32]  packed along n, minus one (checkpoint_format gptq; gptq_v2: as it
//   is) scales  F16 [groups, n], g_idx I32 [k]
// w = (q - zero) * scale[g_idx[k]]
#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/json.h"
#include "load/quant/scheme.h"

namespace octavo::quant {
namespace {

using nlohmann::json;

template <int kBits>
int field(uint32_t word, int64_t i) {
  return static_cast<int>(word >> (kBits * i) & ((1u << kBits) - 1));
}

/// Canonical integers are centred: q - 2^(bits-1), so that 8 bits fit an int8.
template <int kBits>
void read_rows(const HostWeight& weight, int64_t n0, int64_t n1, std::byte* scratch,
               kernels::WeightRows& rows) {
  constexpr int kPerWord = 32 / kBits;
  int8_t* q = reinterpret_cast<int8_t*>(scratch);
  rows.q = q;
  const uint32_t* words = weight.values.as<uint32_t>();
  for (int64_t row = n0; row < n1; ++row)
    for (int64_t i = 0; i < weight.k; ++i) {
      const int64_t k = weight.permutation.empty() ? i : weight.permutation[i];
      const uint32_t word = words[k / kPerWord * weight.n + row];
      *q++ = static_cast<int8_t>(field<kBits>(word, k % kPerWord) - (1 << (kBits - 1)));
    }
}

template <int kBits>
void load(Checkpoint& checkpoint, const QuantScheme& scheme, const std::string& prefix, HostWeight& out) {
  constexpr int kPerWord = 32 / kBits;
  if (out.k % kPerWord)
    throw Error(checkpoint.origin(), ": '", prefix, "' has ", out.k, " inputs, which are not whole words");
  out.values = packed_words(checkpoint, prefix + ".qweight", {out.k / kPerWord, out.n});
  const int centre = (1 << (kBits - 1)) - (scheme.zeros_less_one ? 1 : 0);
  auto zero = [centre](const uint32_t* words, int64_t column) {
    return field<kBits>(words[column / kPerWord], column % kPerWord) - centre;
  };
  load_group_rows(checkpoint, prefix, kPerWord, zero, out);
  if (checkpoint.find(prefix + ".g_idx")) load_group_order(checkpoint, prefix + ".g_idx", out);
  out.reader = read_rows<kBits>;
}

}  // namespace

bool parse_gptq(const json& config, const std::string& origin, const std::string& prefix, QuantScheme& out) {
  JsonFields fields(config, origin + ": quantization_config");
  if (prefix == "lm_head" && !fields.boolean({"lm_head"}, false)) return false;
  out.bits = static_cast<int>(fields.integer({"bits"}, 4, 1, 64));
  if (out.bits != 4 && out.bits != 8)
    throw Error(origin, ": GPTQ with ", out.bits, " bits is not supported, only 4 and 8");
  out.group = std::max<int64_t>(0, fields.integer({"group_size"}, 128, -1, 1 << 20));
  out.symmetric = fields.boolean({"sym"}, true);
  out.act_order = fields.boolean({"desc_act"}, false);
  out.zeros_less_one = fields.text({"checkpoint_format"}, "gptq") != "gptq_v2";
  out.load = out.bits == 4 ? load<4> : load<8>;
  out.format = out.bits == 4 ? kernels::WeightFormat::kW4A16 : kernels::WeightFormat::kW8A16;
  return true;
}

}  // namespace octavo::quant
