// What the engine costs beside the model, in microseconds a step, and the sampler alone:
//   bench_engine [--vocab 49152] [--steps 300]
//   bench_engine --prefix MODEL      TTFT of a 1,000-token prompt, then of one with the same beginning
//   bench_engine --stall MODEL       step times of running streams when a prompt of 2,000 tokens arrives
// The model is a stand-in that copies ready-made logits; its own time is taken off.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/topology.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "model/registry.h"

namespace octavo::bench {
namespace {

using Json = nlohmann::ordered_json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<float> logits_row(int64_t vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 2.5f);
  std::vector<float> row(vocab);
  for (float& x : row) x = normal(random);
  return row;
}

class StandIn : public Model {
 public:
  explicit StandIn(int64_t vocab) : row_(logits_row(vocab, 1)) {
    info_.architecture = "StandIn";
    info_.vocab = vocab;
    info_.max_model_len = 4096;
    info_.kv_heads = 1;
    info_.head_dim = 64;
    info_.kv_groups = {{1, 0}};
  }
  const ModelInfo& info() const override { return info_; }
  void forward(OpContext&, const StepInput& step, const KvStore&, float* logits) override {
    double start = now();
    for (int r = 0; r < step.num_logit_rows; ++r)
      std::memcpy(logits + r * info_.vocab, row_.data(), row_.size() * sizeof(float));
    seconds += now() - start;
  }
  double seconds = 0;

 private:
  ModelInfo info_;
  std::vector<float> row_;
};

struct Kind {
  const char* name;
  SamplingParams params;
};

std::vector<Kind> kinds() {
  SamplingParams greedy, plain, nucleus, full;
  greedy.temperature = 0;
  nucleus.temperature = 0.7f;
  nucleus.top_p = 0.9f;
  full.temperature = 0.7f;
  full.top_k = 50;
  full.top_p = 0.95f;
  full.min_p = 0.01f;
  full.repetition_penalty = 1.1f;
  SamplingParams logprobs = greedy;
  logprobs.logprobs = 20;
  return {{"greedy", greedy},
          {"temperature", plain},
          {"top_p 0.9", nucleus},
          {"top_k 50, top_p, min_p, penalty", full},
          {"greedy, 20 logprobs", logprobs}};
}

void engine_overhead(int64_t vocab, int steps, Team& team) {
  for (const Kind& kind : {kinds()[0], kinds()[3]}) {
    for (int seqs : {1, 16, 64}) {
      auto model = std::make_unique<StandIn>(vocab);
      StandIn* stand_in = model.get();
      EngineConfig config;
      config.num_blocks_override = 64 * 64;
      Engine engine(std::move(model), config, team, kernels::select());
      std::vector<std::shared_ptr<TokenStream>> streams;
      for (int i = 0; i < seqs; ++i) {
        EngineRequest r;
        r.id = i + 1;
        r.prompt.assign(100, i);
        r.sampling = kind.params;
        r.sampling.max_tokens = steps + 100;
        streams.push_back(engine.submit(std::move(r), nullptr));
      }
      while (engine.stats().generation_tokens < seqs * 20) engine.step();
      std::vector<double> times;
      for (int i = 0; i < steps; ++i) {
        stand_in->seconds = 0;
        double start = now();
        engine.step();
        times.push_back(now() - start - stand_in->seconds);
      }
      std::sort(times.begin(), times.end());
      std::cout << Json{{"bench", "engine_step_overhead"},
                        {"sampling", kind.name},
                        {"vocab", vocab},
                        {"sequences", seqs},
                        {"us_median", times[times.size() / 2] * 1e6},
                        {"us_p90", times[times.size() * 9 / 10] * 1e6}}
                << std::endl;
    }
  }
}

void sampler_rows(int64_t vocab) {
  Sampler sampler(kernels::select(), vocab, 1);
  std::vector<float> row = logits_row(vocab, 2), x(vocab);
  for (const Kind& kind : kinds()) {
    SamplerState state(kind.params, std::vector<int32_t>(100, 5), 2000, vocab, 1);
    std::vector<int32_t> output;
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
      x = row;
      double start = now();
      SampleResult result = sampler.sample(kind.params, state, output, x.data(), 0);
      times.push_back(now() - start);
      output.push_back(result.token);
    }
    std::sort(times.begin(), times.end());
    std::cout << Json{{"bench", "sampler_row"},
                      {"sampling", kind.name},
                      {"vocab", vocab},
                      {"us_median", times[times.size() / 2] * 1e6}}
              << std::endl;
  }
}

double seconds_to_first_token(Engine& engine, uint64_t id, std::vector<int32_t> prompt) {
  EngineRequest r;
  r.id = id;
  r.prompt = std::move(prompt);
  r.sampling.temperature = 0;
  r.sampling.max_tokens = 1;
  auto stream = engine.submit(std::move(r), nullptr);
  while (engine.step()) {
  }
  std::cout << Json{{"bench", "prefix"},
                    {"prompt_tokens", engine.stats().prompt_tokens},
                    {"cached_tokens", stream->info().cached_tokens},
                    {"ttft_ms", (stream->info().first_token - stream->info().arrival) * 1e3}}
            << std::endl;
  return stream->info().first_token - stream->info().arrival;
}

void prefix(const std::string& path, Team& team) {
  Workspace workspace(size_t{4} << 30);
  OpContext ctx{team, workspace, kernels::select()};
  auto model = load_model(load_model_config(path), open_checkpoint(path), ctx);
  EngineConfig config;
  config.kv_cache_bytes = size_t{1} << 30;
  double start = now();
  Engine engine(std::move(model), config, team, kernels::select());
  std::cout << Json{{"bench", "engine_construction"}, {"ms", (now() - start) * 1e3}} << std::endl;
  std::vector<int32_t> prompt;
  for (int i = 0; i < 1000; ++i) prompt.push_back(1000 + i * 37 % 20000);
  double first = seconds_to_first_token(engine, 1, prompt);
  for (int i = 0; i < 10; ++i) prompt.push_back(5000 + i);
  double second = seconds_to_first_token(engine, 2, prompt);
  std::cout << Json{{"bench", "prefix"}, {"times_lower", first / second}} << std::endl;
}

/// Four streams decode; then a prompt of 2,000 tokens comes. How long do the streams wait for a token?
void stall(const std::string& path, Team& team) {
  Workspace workspace(size_t{4} << 30);
  OpContext ctx{team, workspace, kernels::select()};
  EngineConfig config;
  config.kv_cache_bytes = size_t{1} << 30;
  Engine engine(load_model(load_model_config(path), open_checkpoint(path), ctx), config, team,
                kernels::select());
  auto submit = [&](uint64_t id, int64_t prompt, int64_t max_tokens) {
    EngineRequest r;
    r.id = id;
    for (int64_t i = 0; i < prompt; ++i)
      r.prompt.push_back(static_cast<int32_t>(1000 + (i * 37 + id) % 20000));
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    return engine.submit(std::move(r), nullptr);
  };
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (uint64_t id = 1; id <= 4; ++id) streams.push_back(submit(id, 50, 4000));
  for (int i = 0; i < 20; ++i) engine.step();
  auto timed_steps = [&](auto done) {
    std::vector<double> times;
    while (!done(times)) {
      double start = now();
      engine.step();
      times.push_back((now() - start) * 1e3);
    }
    std::sort(times.begin(), times.end());
    return times;
  };
  auto before = timed_steps([](auto& times) { return times.size() == 50; });
  auto prompt = submit(9, 2000, 1);
  auto during = timed_steps([&](auto&) { return prompt->finished(); });
  std::cout << Json{{"bench", "long_prompt_beside_streams"},
                    {"step_ms_before", before[before.size() / 2]},
                    {"step_ms_during_median", during[during.size() / 2]},
                    {"step_ms_during_max", during.back()},
                    {"steps", during.size()},
                    {"prompt_ttft_ms", (prompt->info().first_token - prompt->info().arrival) * 1e3}}
            << std::endl;
}

int run(int argc, char** argv) {
  int64_t vocab = 49152;
  int steps = 300;
  std::string prefix_model, stall_model;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--vocab")
      vocab = std::stoll(value);
    else if (flag == "--steps")
      steps = std::stoi(value);
    else if (flag == "--prefix")
      prefix_model = value;
    else if (flag == "--stall")
      stall_model = value;
    else
      throw Error("unknown flag ", flag);
  }
  Team team({.cpus = {0, 1}, .pin = true});
  if (!prefix_model.empty()) {
    prefix(prefix_model, team);
  } else if (!stall_model.empty()) {
    stall(stall_model, team);
  } else {
    engine_overhead(vocab, steps, team);
    sampler_rows(vocab);
    sampler_rows(150000);
  }
  return 0;
}

}  // namespace
}  // namespace octavo::bench

int main(int argc, char** argv) {
  try {
    return octavo::bench::run(argc, argv);
  } catch (const octavo::Error& error) {
    std::cerr << "bench_engine: " << error.what() << "\n";
    return 1;
  }
}
