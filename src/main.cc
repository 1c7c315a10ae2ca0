// The composition root: which commands there are, and how `serve` joins engine and server.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "frontend/load_engine.h"
#include "server/serve_flags.h"

namespace octavo {
namespace {

int serve(EngineOptions& engine, ServerOptions& server) {
  finish_engine_options(engine);
  finish_server_options(server, engine.model);
  // Until the server takes the signals over there is nothing to finish: stopping a load is no failure.
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { _exit(0); });
  double start = steady_seconds();
  std::unique_ptr<LoadedModel> model = load_engine(engine);
  return run_server(*model->frontend, server, [&](const std::string& address) {
    spdlog::info("Serving {} at {} after {:.2f} s", server.served_model_names[0], address,
                 steady_seconds() - start);
  });
}

Command serve_command() {
  return {"serve", "OpenAI-compatible server", [](CLI::App& app) {
            auto engine = std::make_shared<EngineOptions>();
            auto server = std::make_shared<ServerOptions>();
            add_engine_flags(app, *engine);
            add_server_flags(app, *server);
            return [=] { return serve(*engine, *server); };
          }};
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  using namespace octavo;
  return run_command_line(argc, argv,
                          {serve_command(), run_command(), info_command(), quantize_command(),
                           bench_serve_command(), bench_throughput_command(), bench_latency_command(),
                           bench_kernels_command(), bench_perplexity_command()});
}
