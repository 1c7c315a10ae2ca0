// Cases of one loaded model, through the whole engine (scheduler, sampler, the token streams of the API), for
// bench/compare:
//   bench_offline MODEL [engine flags]
// prints {"ready": ...} once the model is loaded, then for each line "SEQUENCES PROMPT GENERATE" of standard
// input one result. The process waits between lines without using the CPU, so that peers can take turns on
// one machine.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "base/error.h"
#include "cli/engine_flags.h"
#include "frontend/load_engine.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Case {
  int64_t sequences = 0, prompt = 0, generate = 0;  ///< tokens; a sequence makes generate + 1 of them
};

class Offline {
 public:
  explicit Offline(LoadedModel& model) : model_(model) {}

  /// Prefill: prompts in, until each sequence has its first token. Decode: what comes after that moment while
  /// all of them run (the first ones have had more tokens by then, and end sooner), or all of it if one has
  /// ended.
  Json run(const Case& c) {
    const double start = steady_seconds();
    submit(c);
    Mark first, last;
    while (!all([](const TokenStream& stream) { return stream.finished(); })) {
      model_.frontend->wait(0.5);
      if (first.seconds == 0 && all([](const TokenStream& stream) { return stream.size() > 0; }))
        first = mark();
      if (first.seconds > 0 && all([](const TokenStream& stream) { return !stream.finished(); }))
        last = mark();
    }
    if (last.tokens <= first.tokens) last = mark();
    Json out{{"sequences", c.sequences},
             {"prompt", c.prompt},
             {"generate", c.generate},
             {"prefill_tokens_per_s", static_cast<double>(c.sequences * c.prompt) / (first.seconds - start)}};
    if (c.generate > 0)
      out["decode_tokens_per_s"] =
          static_cast<double>(last.tokens - first.tokens) / (last.seconds - first.seconds);
    return out;
  }

 private:
  struct Mark {
    double seconds = 0;
    int64_t tokens = 0;
  };
  Mark mark() const { return {steady_seconds(), tokens()}; }

  void submit(const Case& c) {
    streams_.clear();
    std::uniform_int_distribution<int32_t> pick(
        1000, static_cast<int32_t>(model_.engine->model_info().vocab) - 1000);
    for (int64_t s = 0; s < c.sequences; ++s) {
      EngineRequest request;
      request.id = ++id_;
      for (int64_t i = 0; i < c.prompt; ++i) request.prompt.push_back(pick(random_));
      request.sampling.temperature = 0;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = c.generate + 1;
      Engine::Refusal refusal{};
      auto stream = model_.engine->submit(std::move(request), &refusal);
      if (!stream)
        throw Error("the engine refused a sequence of ", c.prompt, " tokens (", static_cast<int>(refusal),
                    ")");
      streams_.push_back(std::move(stream));
    }
  }

  bool all(auto condition) const {
    return std::all_of(streams_.begin(), streams_.end(),
                       [&](const auto& stream) { return condition(*stream); });
  }

  int64_t tokens() const {
    int64_t sum = 0;
    for (const auto& stream : streams_) sum += stream->size();
    return sum;
  }

  LoadedModel& model_;
  std::vector<std::shared_ptr<TokenStream>> streams_;
  std::mt19937 random_{1};
  uint64_t id_ = 0;
};

int run(int argc, char** argv) {
  CLI::App app("Measures cases of one loaded model");
  EngineOptions options;
  add_engine_flags(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  spdlog::set_default_logger(spdlog::stderr_color_mt("bench_offline"));  // standard output has the results
  finish_engine_options(options);
  const double start = steady_seconds();
  std::unique_ptr<LoadedModel> model = load_engine(options);
  const ModelInfo& info = model->engine->model_info();
  std::cout << Json{{"ready", steady_seconds() - start},
                    {"weight_bytes", info.weight_bytes},
                    {"kernels", info.kernels},
                    {"workers", model->team->size()}}
            << std::endl;
  Offline offline(*model);
  for (std::string line; std::getline(std::cin, line);) {
    Case c;
    if (!(std::istringstream(line) >> c.sequences >> c.prompt >> c.generate) || c.sequences < 1 ||
        c.prompt < 1)
      throw Error("standard input: expected SEQUENCES PROMPT GENERATE, got ", line);
    std::cout << offline.run(c) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  try {
    return octavo::bench::run(argc, argv);
  } catch (const octavo::Error& error) {
    std::cerr << "bench_offline: " << error.what() << "\n";
    return 1;
  }
}
