// The server's own flags, under vLLM's names (surface document, section 1.1).
#pragma once

#include <string>

#include "server/server.h"

namespace CLI {
class App;
}

namespace octavo {

/// Binds flags to `options`, which must outlive the parse. Call finish_server_options after it.
void add_server_flags(CLI::App& app, ServerOptions& options);
/// Environment variables and defaults that follow from the model. Error naming the flag.
void finish_server_options(ServerOptions& options, const std::string& model);

}  // namespace octavo
