// A quantised layer from a hostile folder: a JSON text {n, k, quantization_config}, a zero byte, then the
// bytes of a safetensors file with the tensors of layer "m". What is accepted is read in both forms, packed
// and run.
#include "attempt.h"
#include "load/hf_config.h"
#include "load/json.h"
#include "load/quant/scheme.h"
#include "load/safetensors.h"
#include "model/testing.h"

namespace {

using namespace octavo;

constexpr int64_t kMaxSize = 512;

Checkpoint checkpoint_of(std::span<const std::byte> file) {
  std::vector<const std::byte*> data;
  std::vector<TensorInfo> tensors = parse_safetensors(file, "fuzz", data);
  Checkpoint out("fuzz");
  for (size_t i = 0; i < tensors.size(); ++i) out.add({std::move(tensors[i]), data[i], 0});
  return out;
}

void load(const nlohmann::json& json, std::span<const std::byte> file) {
  static TestMachine machine(kernels::select("scalar"), {0});
  JsonFields fields(json, "fuzz");
  const int64_t n = fields.integer({"n"}, 8, 1, kMaxSize), k = fields.integer({"k"}, 8, 1, kMaxSize);
  ModelConfig config;
  config.origin = "fuzz";
  if (const nlohmann::json* given = fields.find({"quantization_config"}))
    config.quantization = std::make_shared<nlohmann::json>(*given);
  Checkpoint checkpoint = checkpoint_of(file);
  Loader loader(machine.ctx, config, checkpoint, {});
  Linear weights;
  Embedding table;  // read as plain values, whatever the scheme
  loader.linear(weights, "m", k, {{"m", n}});
  table.bind(loader, "m", n, k);
  loader.finish();
  const std::vector<float> x(k, 0.5f);
  std::vector<float> y(n);
  linear(machine.ctx, weights, x.data(), k, 1, y.data(), n);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(bytes), size);
  const size_t zero = std::min(input.find('\0'), size);
  const std::span file(reinterpret_cast<const std::byte*>(bytes), size);
  octavo::fuzz::attempt(
      [&] { load(parse_json(input.substr(0, zero), "fuzz"), file.subspan(std::min(zero + 1, size))); });
  return 0;
}
