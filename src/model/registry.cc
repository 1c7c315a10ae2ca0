#include "model/registry.h"

#include "model/families.h"

namespace octavo {
namespace {

struct Family {
  const char* architecture;
  std::unique_ptr<Model> (*make)(Loader& loader);
};

constexpr Family kFamilies[] = {
    {"GPT2LMHeadModel", make_gpt2}, {"LlamaForCausalLM", make_llama}, {"MistralForCausalLM", make_llama},
    {"OPTForCausalLM", make_opt},   {"Qwen2ForCausalLM", make_qwen2}, {"Qwen3ForCausalLM", make_qwen3},
};

/// A model together with the files that its embedding is mapped from.
class LoadedModel final : public Model {
 public:
  LoadedModel(std::unique_ptr<Checkpoint> checkpoint, std::unique_ptr<Model> model)
      : checkpoint_(std::move(checkpoint)), model_(std::move(model)) {}
  const ModelInfo& info() const override { return model_->info(); }
  void forward(OpContext& ctx, const StepInput& step, const KvStore& kv, float* logits) override {
    model_->forward(ctx, step, kv, logits);
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Model> model_;
};

}  // namespace

std::string supported_models() {
  std::string out;
  for (const Family& family : kFamilies) out += (out.empty() ? "" : ", ") + std::string(family.architecture);
  return out;
}

namespace {

const Family& family_of(const ModelConfig& config) {
  for (const Family& family : kFamilies)
    if (config.architecture == family.architecture) return family;
  throw Error(config.origin, ": architecture '", config.architecture,
              "' is not supported; supported: ", supported_models());
}

}  // namespace

std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint checkpoint, OpContext& ctx,
                                  const LoadOptions& options) {
  const Family& family = family_of(config);
  auto kept = std::make_unique<Checkpoint>(std::move(checkpoint));
  Loader loader(ctx, config, *kept, options);
  std::unique_ptr<Model> model = family.make(loader);
  return std::make_unique<LoadedModel>(std::move(kept), std::move(model));
}

std::vector<LinearInfo> list_linears(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx) {
  Loader loader(ctx, config, checkpoint, {.bind_only = true, .max_model_len = 1});
  std::vector<LinearInfo> out = family_of(config).make(loader)->info().linears;
  for (LinearInfo& linear : out) linear.linear = nullptr;
  return out;
}

}  // namespace octavo
