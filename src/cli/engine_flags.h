// The engine's flags, shared by every command that loads a model, under vLLM's names.
#pragma once

#include <memory>

#include "frontend/engine_options.h"

namespace CLI {
class App;
}

namespace octavo {

/// Binds flags and the MODEL positional to `options`, which must outlive the parse. Call
/// finish_engine_options after it.
void add_engine_flags(CLI::App& app, EngineOptions& options);
/// Environment variables, and what depends on more than one flag. Error naming the flag.
void finish_engine_options(EngineOptions& options);

/// vLLM's flags that change nothing here: accepted, and logged once.
void add_ignored_flags(CLI::App& app);

/// "32k" = 32000, "32K" = 32768, likewise m/M g/G t/T; "2.5k" too. Error naming the flag.
int64_t parse_count(const std::string& text, const std::string& flag);

}  // namespace octavo
