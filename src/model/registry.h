// From a config and a checkpoint to a model that is ready to run.
#pragma once

#include <memory>
#include <string>

#include "load/checkpoint.h"
#include "load/hf_config.h"
#include "model/loader.h"
#include "model/model.h"

namespace octavo {

/// Binds and packs all weights, in parallel over ctx.team. The model keeps the checkpoint: embedding rows are
/// read where the file is mapped. Error: an architecture that no family serves (the known ones are listed),
/// missing tensors (all are listed), a tensor of the wrong shape or type. ModelInfo::ignored_tensors has what
/// the checkpoint holds and the model does not read.
std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint checkpoint, OpContext& ctx,
                                  const LoadOptions& options = {});

/// The linear layers that this model would be made of, nothing packed; LinearInfo::linear is null. Marks
/// their tensors used.
std::vector<LinearInfo> list_linears(const ModelConfig& config, Checkpoint& checkpoint, OpContext& ctx);

/// "GPT2LMHeadModel, LlamaForCausalLM, ...", for messages and help.
std::string supported_models();

}  // namespace octavo
