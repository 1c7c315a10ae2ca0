// octavo bench perplexity: exp of the mean negative log-likelihood of a text's tokens, each given those
// before it, by the engine as it serves (its weight format, kernels and KV cache).
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/statistics.h"
#include "frontend/api_error.h"
#include "frontend/load_engine.h"

namespace octavo {
namespace {

struct PerplexityOptions {
  EngineOptions engine;
  std::string text, output_json;
  int64_t max_tokens = 0, window = 0;
};

/// Sum of the log-probabilities of ids[1..].
double window_log_likelihood(Frontend& frontend, const std::vector<int32_t>& ids) {
  GenerateRequest request{.prompt = ids};
  request.sampling.max_tokens = 1;
  request.sampling.prompt_logprobs = 0;
  request.sampling.temperature = 0.0;
  try {
    std::unique_ptr<Stream> stream = frontend.submit(request);
    for (TextDelta delta; !stream->done();) {
      if (!stream->next(delta)) frontend.wait(0.5);
      if (delta.finish == FinishReason::kError) throw Error("the engine failed: ", delta.error);
    }
    double sum = 0;
    for (size_t i = 1; i < ids.size(); ++i) {
      const TokenLogprobs scores = stream->prompt_logprobs(static_cast<int64_t>(i));
      OCTAVO_CHECK(!scores.empty() && scores[0].id == ids[i]);
      sum += scores[0].logprob;
    }
    return sum;
  } catch (const ApiError& e) {
    throw Error(e.what());
  }
}

int perplexity(PerplexityOptions& o) {
  if (o.text.empty()) throw Error("--text is missing: a file");
  if (o.max_tokens < 0 || o.window < 0) throw Error("--max-tokens and --window: expected at least 0");
  const std::string text = read_file("--text", o.text);
  if (text.empty()) throw Error("--text ", o.text, ": is empty");
  finish_engine_options(o.engine);
  o.engine.enable_prefix_caching = false;
  std::unique_ptr<LoadedModel> model = load_engine(o.engine);
  std::vector<int32_t> ids = model->text->encode(text, false);
  if (o.max_tokens && static_cast<int64_t>(ids.size()) > o.max_tokens) ids.resize(o.max_tokens);
  int64_t window = model->engine->stats().max_model_len - 1;
  if (o.window) window = std::min(window, o.window);
  if (window < 2 || ids.size() < 2) throw Error("perplexity needs two tokens at least in a window");
  double sum = 0;
  int64_t scored = 0;
  {
    Progress progress("tokens", std::ssize(ids));
    for (int64_t at = 0; at + 1 < std::ssize(ids); at += window) {
      const int64_t end = std::min<int64_t>(at + window, std::ssize(ids));
      sum += window_log_likelihood(*model->frontend, {ids.begin() + at, ids.begin() + end});
      scored += end - at - 1;
      progress.advance(end - at);
    }
  }
  const double nll = -sum / static_cast<double>(scored);
  printf("Perplexity: %.4f (mean negative log-likelihood %.6f of %lld tokens, windows of %lld)\n",
         std::exp(nll), nll, static_cast<long long>(scored),
         static_cast<long long>(std::min<int64_t>(window, std::ssize(ids))));
  if (!o.output_json.empty())
    write_file(
        o.output_json,
        nlohmann::json{{"perplexity", std::exp(nll)}, {"mean_nll", nll}, {"n_scored", scored}}.dump(4));
  return 0;
}

}  // namespace

Command bench_perplexity_command() {
  return {"bench perplexity", "Perplexity of a text", [](CLI::App& app) {
            auto o = std::make_shared<PerplexityOptions>();
            const char* group = "Benchmark";
            app.add_option("--text", o->text, "File; its tokens, none added, are scored")->group(group);
            app.add_option("--max-tokens", o->max_tokens, "Only the first ones; 0: all")->group(group);
            app.add_option("--window", o->window,
                           "Tokens that see each other; 0: as many as the model's length allows")
                ->group(group);
            app.add_option("--output-json", o->output_json, "Result file")->group(group);
            add_engine_flags(app, o->engine);
            return [=] { return perplexity(*o); };
          }};
}

}  // namespace octavo
