// The text side of a model from its files: tokenizer.json or GGUF metadata, and its chat template.
#pragma once

#include <memory>

#include "frontend/engine_options.h"
#include "frontend/text.h"
#include "load/hf_config.h"

namespace octavo {

class GgufFile;

/// `path`: the model's folder or *.gguf file. Error naming the file at fault; but a chat template of the
/// checkpoint that is not in the language is a warning, and render() then refuses with the same words.
std::unique_ptr<Text> load_text(const std::string& path, const ModelConfig& config,
                                const EngineOptions& options);

/// The part of it for a GGUF file that is open.
std::unique_ptr<Text> gguf_text(const GgufFile& file, const EngineOptions& options);

}  // namespace octavo
