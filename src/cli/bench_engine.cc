// octavo bench latency | throughput: the engine in this process, no server (surface document, section 1.6).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "cli/bench_data.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/statistics.h"
#include "frontend/api_error.h"
#include "frontend/load_engine.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

struct LatencyOptions {
  EngineOptions engine;
  int64_t input_len = 32, output_len = 128, batch_size = 8, n = 1, warmup = 10, iterations = 30;
  std::string output_json;
  bool disable_detokenize = false;
};

struct ThroughputOptions {
  EngineOptions engine;
  DatasetOptions data{.name = "sharegpt"};
  std::string backend = "vllm", output_json;
  int64_t n = 1, num_warmups = 0;
  bool disable_detokenize = false;
};

GenerateRequest fixed_request(std::vector<int32_t> ids, int64_t output_len, int64_t n) {
  GenerateRequest request{.prompt = std::move(ids)};
  request.sampling.max_tokens = output_len;
  request.sampling.ignore_eos = true;
  request.sampling.temperature = 1.0;
  request.sampling.n = n;
  return request;
}

/// Runs all requests to their end.
void run_all(Frontend& frontend, const std::vector<GenerateRequest>& requests, Progress* progress) {
  std::vector<std::unique_ptr<Stream>> streams;
  try {
    for (const GenerateRequest& request : requests) streams.push_back(frontend.submit(request));
  } catch (const ApiError& e) {
    throw Error(e.what());
  }
  TextDelta delta;
  while (!streams.empty()) {
    bool moved = false;
    std::erase_if(streams, [&](std::unique_ptr<Stream>& stream) {
      while (stream->next(delta)) moved = true;
      if (stream->done() && progress) progress->advance();
      return stream->done();
    });
    if (!moved && !streams.empty()) frontend.wait(0.5);
  }
}

int latency(LatencyOptions& o) {
  finish_engine_options(o.engine);
  o.engine.enable_prefix_caching = false;  // the same prompts again would measure the cache
  std::unique_ptr<LoadedModel> model = load_engine(o.engine);
  DatasetOptions data{.num_prompts = o.batch_size, .input_len = o.input_len, .output_len = o.output_len};
  std::vector<GenerateRequest> requests;
  for (BenchRequest& r : make_requests(
           data, {.vocab = std::min(model->text->vocab(), model->config.vocab), .encode = {}, .decode = {}},
           false))
    requests.push_back(fixed_request(std::move(r.ids), o.output_len, o.n));
  std::vector<double> seconds;
  {
    Progress progress("iterations", o.warmup + o.iterations);
    for (int64_t i = 0; i < o.warmup + o.iterations; ++i) {
      double start = steady_seconds();
      run_all(*model->frontend, requests, nullptr);
      if (i >= o.warmup) seconds.push_back(steady_seconds() - start);
      progress.advance();
    }
  }
  Json result{{"avg_latency", mean(seconds)}, {"latencies", seconds}, {"percentiles", Json::object()}};
  printf("Avg latency: %.4f seconds\n", mean(seconds));
  for (int p : {10, 25, 50, 75, 90, 99}) {
    result["percentiles"][std::to_string(p)] = percentile(seconds, p);
    printf("%d%% percentile latency: %.4f seconds\n", p, percentile(seconds, p));
  }
  if (!o.output_json.empty()) write_file(o.output_json, result.dump(4));
  return 0;
}

int throughput(ThroughputOptions& o) {
  finish_engine_options(o.engine);
  if (o.backend != "vllm" && o.backend != "octavo")
    throw Error("--backend ", o.backend, ": only this engine can be measured (vllm)");
  o.data.seed = o.engine.seed;
  if (o.data.path.empty() && o.data.name == "sharegpt")
    o.data.name = "random";  // as vLLM: random lengths without a file
  std::unique_ptr<LoadedModel> model = load_engine(o.engine);
  const Text& text = *model->text;
  BenchTokenizer tokenizer{std::min(text.vocab(), model->config.vocab),
                           [&](const std::string& s) { return text.encode(s, true); },
                           [&](const std::vector<int32_t>& ids) { return text.decode(ids, true); }};
  std::vector<GenerateRequest> requests;
  int64_t prompt_tokens = 0, output_tokens = 0;
  for (BenchRequest& r : make_requests(o.data, tokenizer, false)) {
    prompt_tokens += static_cast<int64_t>(r.ids.size());
    output_tokens += r.output_len * o.n;
    requests.push_back(fixed_request(std::move(r.ids), r.output_len, o.n));
  }
  if (o.num_warmups > 0)
    run_all(*model->frontend,
            {requests.begin(), requests.begin() + std::min<ptrdiff_t>(o.num_warmups, std::ssize(requests))},
            nullptr);
  double start = steady_seconds(), elapsed;
  {
    Progress progress("requests", std::ssize(requests));
    run_all(*model->frontend, requests, &progress);
    elapsed = steady_seconds() - start;
  }
  double count = static_cast<double>(requests.size()),
         total = static_cast<double>(prompt_tokens + output_tokens);
  printf("Throughput: %.2f requests/s, %.2f total tokens/s, %.2f output tokens/s\n", count / elapsed,
         total / elapsed, static_cast<double>(output_tokens) / elapsed);
  printf("Total num prompt tokens:  %lld\nTotal num output tokens:  %lld\n",
         static_cast<long long>(prompt_tokens), static_cast<long long>(output_tokens));
  if (!o.output_json.empty()) {
    Json result{{"elapsed_time", elapsed},
                {"num_requests", requests.size()},
                {"total_num_tokens", prompt_tokens + output_tokens},
                {"requests_per_second", count / elapsed},
                {"tokens_per_second", total / elapsed}};
    write_file(o.output_json, result.dump(4));
  }
  return 0;
}

}  // namespace

Command bench_latency_command() {
  return {"bench latency", "Time of one batch, prompt to last token", [](CLI::App& app) {
            auto o = std::make_shared<LatencyOptions>();
            const char* group = "Benchmark";
            app.add_option("--input-len", o->input_len, "Prompt tokens")->group(group)->capture_default_str();
            app.add_option("--output-len", o->output_len, "Tokens to generate")
                ->group(group)
                ->capture_default_str();
            app.add_option("--batch-size", o->batch_size, "Requests at once")
                ->group(group)
                ->capture_default_str();
            app.add_option("--n", o->n, "Sequences a request")->group(group)->capture_default_str();
            app.add_option("--num-iters-warmup", o->warmup, "")->group(group)->capture_default_str();
            app.add_option("--num-iters", o->iterations, "")->group(group)->capture_default_str();
            app.add_option("--output-json", o->output_json, "Result file")->group(group);
            app.add_flag("--disable-detokenize", o->disable_detokenize,
                         "Accepted; detokenising costs nothing measurable")
                ->group(group);
            add_engine_flags(app, o->engine);
            return [=] { return latency(*o); };
          }};
}

Command bench_throughput_command() {
  return {"bench throughput", "Tokens a second with everything queued at once", [](CLI::App& app) {
            auto o = std::make_shared<ThroughputOptions>();
            const char* group = "Benchmark";
            app.add_option("--backend", o->backend, "vllm: this engine")->group(group)->capture_default_str();
            app.add_option("--n", o->n, "Sequences a request")->group(group)->capture_default_str();
            app.add_option("--num-warmups", o->num_warmups, "Requests before the clock starts")
                ->group(group)
                ->capture_default_str();
            app.add_option("--output-json", o->output_json, "Result file")->group(group);
            app.add_flag("--disable-detokenize,--async-engine,--prequeue-requests", o->disable_detokenize,
                         "Accepted, no effect")
                ->group(group);
            add_dataset_flags(app, o->data);
            add_engine_flags(app, o->engine);
            return [=] { return throughput(*o); };
          }};
}

}  // namespace octavo
