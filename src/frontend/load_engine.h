// From options to a running engine: hub -> config -> tokenizer -> template -> weights -> engine -> frontend.
#pragma once

#include <memory>
#include <string>

#include "base/team.h"
#include "base/topology.h"
#include "frontend/engine_options.h"
#include "frontend/frontend.h"
#include "load/hf_config.h"

namespace octavo {

/// Everything that a served model consists of; members are destroyed from the last to the first.
struct LoadedModel {
  std::string path;  ///< the folder or file that the name resolved to
  ModelConfig config;
  std::unique_ptr<Team> team;
  std::unique_ptr<Text> text;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Frontend> frontend;

  ~LoadedModel();
};

/// Loads, logs what was chosen and why, and starts the engine thread. Error for anything wrong with files or
/// options.
std::unique_ptr<LoadedModel> load_engine(const EngineOptions& options);

/// The folder or *.gguf file behind a name; downloads nothing that is there.
std::string resolve_model_path(const EngineOptions& options);
/// Sampling defaults and stop ids as --generation-config and --override-generation-config leave them.
FrontendOptions frontend_options(const EngineOptions& options, const ModelConfig& config, const Text& text);
/// Which CPUs work, and why.
Binding thread_binding(const EngineOptions& options);

}  // namespace octavo
