// octavo bench serve: a client that measures any OpenAI-compatible server, with vLLM's flags and results
// (surface document, section 1.5).
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "cli/bench_data.h"
#include "cli/commands.h"
#include "cli/http_client.h"
#include "cli/serve_report.h"
#include "cli/statistics.h"
#include "frontend/frontend.h"
#include "frontend/model_text.h"

namespace octavo {
namespace {

using Json = nlohmann::ordered_json;

struct ServeBenchOptions {
  ReportOptions report;
  std::string backend = "openai", base_url, host = "127.0.0.1", endpoint, model, served_model_name, tokenizer,
              label, result_dir, result_filename, extra_body = "{}", request_id_prefix = "bench-";
  int port = 8000;
  std::vector<std::string> headers, metadata;
  DatasetOptions data;
  double burstiness = 1.0;
  int64_t num_warmups = 0, ready_timeout = 0;
  bool ignore_eos = false, save_result = false, save_detailed = false, append_result = false,
       disable_tqdm = false;
  std::optional<int64_t> logprobs, top_k;
  std::optional<double> temperature, top_p, min_p, frequency_penalty, presence_penalty, repetition_penalty;
};

bool is_chat(const ServeBenchOptions& o) { return o.backend == "openai-chat"; }

HttpTarget target_of(const ServeBenchOptions& o) {
  HttpTarget target;
  if (!o.base_url.empty())
    target = parse_base_url(o.base_url);
  else
    target.host = o.host, target.port = o.port;
  for (const std::string& header : o.headers) {
    size_t equals = header.find('=');
    if (equals == header.npos) throw Error("--header ", header, ": expected KEY=VALUE");
    target.headers.emplace_back(header.substr(0, equals), header.substr(equals + 1));
  }
  if (const char* key = std::getenv("OPENAI_API_KEY"))
    target.headers.emplace_back("authorization", std::string("Bearer ") + key);
  return target;
}

Json call_json(const HttpTarget& target, const char* method, const std::string& path,
               const std::string& body = "") {
  HttpResult result = http_call(target, method, path, body);
  if (!result.error.empty()) throw Error("http://", target.host, ":", target.port, path, ": ", result.error);
  Json value = Json::parse(result.body, nullptr, false);
  if (result.status != 200 || value.is_discarded())
    throw Error("http://", target.host, ":", target.port, path, ": HTTP ", result.status, " ",
                result.body.substr(0, 200));
  return value;
}

/// The tokenizer of a local model, or the server's own over /tokenize and /detokenize.
BenchTokenizer tokenizer_of(const ServeBenchOptions& o, const HttpTarget& target,
                            std::shared_ptr<Text>& text) {
  std::string path = !o.tokenizer.empty() ? o.tokenizer : o.model;
  struct stat status;
  if (!path.empty() && stat(path.c_str(), &status) == 0) {
    EngineOptions engine;
    engine.model = path;
    text = load_text(path, {}, engine);
    return {text->vocab(), [text](const std::string& s) { return text->encode(s, true); },
            [text](const std::vector<int32_t>& ids) { return text->decode(ids, true); }};
  }
  auto encode = [target](const std::string& s) {
    return call_json(target, "POST", "/tokenize", Json{{"prompt", s}}.dump())["tokens"]
        .get<std::vector<int32_t>>();
  };
  auto decode = [target](const std::vector<int32_t>& ids) {
    return call_json(target, "POST", "/detokenize", Json{{"tokens", ids}}.dump())["prompt"]
        .get<std::string>();
  };
  // The vocabulary's size by bisection: an id beyond it is refused.
  int64_t low = 1, high = 1 << 20;
  while (low < high) {
    int64_t middle = (low + high + 1) / 2;
    bool known =
        http_call(target, "POST", "/detokenize", Json{{"tokens", {middle - 1}}}.dump()).status == 200;
    (known ? low : high) = known ? middle : middle - 1;
  }
  return {low, encode, decode};
}

std::string request_body(const ServeBenchOptions& o, const BenchRequest& request, const std::string& model) {
  Json body{{"model", model}};
  if (is_chat(o))
    body["messages"] = Json::array({{{"role", "user"}, {"content", request.text}}});
  else
    body["prompt"] = request.text;
  body["repetition_penalty"] = 1.0;
  body[is_chat(o) ? "max_completion_tokens" : "max_tokens"] = request.output_len;
  if (o.logprobs) {
    body["logprobs"] = is_chat(o) ? Json(true) : Json(*o.logprobs);
    if (is_chat(o)) body["top_logprobs"] = *o.logprobs;
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (o.ignore_eos) body["ignore_eos"] = true;
  auto set = [&](const char* key, const auto& value) {
    if (value) body[key] = *value;
  };
  set("temperature", o.temperature);
  set("top_p", o.top_p);
  set("top_k", o.top_k);
  set("min_p", o.min_p);
  set("frequency_penalty", o.frequency_penalty);
  set("presence_penalty", o.presence_penalty);
  set("repetition_penalty", o.repetition_penalty);
  Json extra = Json::parse(o.extra_body, nullptr, false);
  if (!extra.is_object()) throw Error("--extra-body ", o.extra_body, ": expected a JSON object");
  body.update(extra);
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Start times: gamma-distributed gaps (burstiness 1: Poisson), stretched so that the whole keeps to the
/// rate.
std::vector<double> arrivals(const ServeBenchOptions& o, size_t count) {
  std::vector<double> out(count, 0);
  double rate = o.report.request_rate == "inf" ? HUGE_VAL : std::atof(o.report.request_rate.c_str());
  if (!(rate > 0))
    throw Error("--request-rate ", o.report.request_rate, ": expected a positive number or inf");
  if (std::isinf(rate)) return out;
  if (!(o.burstiness > 0)) throw Error("--burstiness must be positive");
  std::mt19937_64 random(o.data.seed);
  std::gamma_distribution<double> gap(o.burstiness, 1.0 / (rate * o.burstiness));
  double time = 0;
  for (double& at : out) at = time += gap(random);
  double stretch = time > 0 ? static_cast<double>(count) / rate / time : 1;
  for (double& at : out) at *= stretch;
  return out;
}

void on_event(Outcome& outcome, std::string_view data) {
  if (data == "[DONE]") return;
  double now = steady_seconds();
  Json chunk = Json::parse(data, nullptr, false);
  if (!chunk.is_object()) return;
  if (chunk.contains("error")) {
    outcome.error = chunk["error"].dump();
    return;
  }
  if (auto choices = chunk.find("choices");
      choices != chunk.end() && choices->is_array() && !choices->empty()) {
    if (outcome.first == 0)
      outcome.first = now;
    else
      outcome.gaps.push_back(now - outcome.last);
    outcome.last = now;
    const Json& choice = (*choices)[0];
    const Json* part = choice.contains("delta") ? &choice["delta"] : &choice;
    const char* key = choice.contains("delta") ? "content" : "text";
    if (part->contains(key) && (*part)[key].is_string()) outcome.text += (*part)[key].get<std::string>();
  }
  if (auto usage = chunk.find("usage"); usage != chunk.end() && usage->is_object()) {
    outcome.output_tokens = usage->value("completion_tokens", int64_t{0});
    outcome.prompt_tokens = usage->value("prompt_tokens", outcome.prompt_tokens);
  }
}

std::vector<Outcome> run_requests(const ServeBenchOptions& o, const HttpTarget& target,
                                  const std::vector<BenchRequest>& requests, const std::string& model,
                                  bool paced, const char* label) {
  std::vector<HttpJob> jobs;
  std::vector<double> starts = paced ? arrivals(o, requests.size()) : std::vector<double>(requests.size(), 0);
  for (size_t i = 0; i < requests.size(); ++i)
    jobs.push_back({starts[i], request_body(o, requests[i], model), o.request_id_prefix + std::to_string(i)});
  std::vector<Outcome> outcomes(requests.size());
  Progress progress(label, std::ssize(requests));
  HttpRun run;
  run.path = !o.endpoint.empty() ? o.endpoint : is_chat(o) ? "/v1/chat/completions" : "/v1/completions";
  run.max_concurrency = static_cast<size_t>(o.report.max_concurrency);
  run.on_start = [&](size_t i) {
    outcomes[i].start = steady_seconds();
    outcomes[i].prompt_tokens = std::ssize(requests[i].ids);
  };
  run.on_event = [&](size_t i, std::string_view data) { on_event(outcomes[i], data); };
  run.on_end = [&](size_t i, const HttpResult& result) {
    Outcome& outcome = outcomes[i];
    if (outcome.error.empty())
      outcome.error = !result.error.empty()  ? result.error
                      : result.status != 200 ? "HTTP " + std::to_string(result.status) + " " + result.body
                                             : "";
    outcome.ok = outcome.error.empty() && outcome.first > 0;
    progress.advance();
  };
  run_http(target, jobs, run);
  return outcomes;
}

void save(const ServeBenchOptions& o, const std::string& model, const Json& measured) {
  std::time_t now = std::time(nullptr);
  char date[32];
  std::strftime(date, sizeof date, "%Y%m%d-%H%M%S", std::localtime(&now));
  Json out{{"date", date},
           {"endpoint_type", o.backend},
           {"backend", o.backend},
           {"label", o.label},
           {"model_id", model},
           {"tokenizer_id", o.tokenizer.empty() ? model : o.tokenizer},
           {"num_prompts", o.data.num_prompts},
           {"request_rate",
            o.report.request_rate == "inf" ? Json("inf") : Json(std::atof(o.report.request_rate.c_str()))},
           {"burstiness", o.burstiness},
           {"max_concurrency", o.report.max_concurrency ? Json(o.report.max_concurrency) : Json(nullptr)}};
  for (const std::string& item : o.metadata) {
    size_t equals = item.find('=');
    if (equals == item.npos) throw Error("--metadata ", item, ": expected KEY=VALUE");
    out[item.substr(0, equals)] = item.substr(equals + 1);
  }
  out.update(measured);
  std::string base = model.substr(model.find_last_of('/') + 1), file = o.result_filename;
  if (file.empty())
    file = (o.label.empty() ? o.backend : o.label) + "-" + o.report.request_rate + "qps-" + base + "-" +
           date + ".json";
  if (!o.result_dir.empty()) {
    mkdir(o.result_dir.c_str(), 0777);
    file = o.result_dir + "/" + file;
  }
  std::string text = out.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (o.append_result) {
    std::ofstream(file, std::ios::app) << text << "\n";
    return;
  }
  write_file(file, text);
}

int serve_bench(ServeBenchOptions& o) {
  if (o.backend != "openai" && o.backend != "vllm" && o.backend != "openai-chat")
    throw Error("--backend ", o.backend, ": expected openai, vllm or openai-chat");
  HttpTarget target = target_of(o);
  double wait_until = steady_seconds() + static_cast<double>(o.ready_timeout);
  while (o.ready_timeout && http_call(target, "GET", "/v1/models").status != 200 &&
         steady_seconds() < wait_until) {
    timespec pause{0, 500'000'000};
    nanosleep(&pause, nullptr);
  }
  std::string model = !o.served_model_name.empty() ? o.served_model_name : o.model;
  if (model.empty()) model = call_json(target, "GET", "/v1/models")["data"][0]["id"].get<std::string>();
  std::shared_ptr<Text> text;
  std::vector<BenchRequest> requests = make_requests(o.data, tokenizer_of(o, target, text), true);
  if (o.num_warmups > 0)
    run_requests(
        o, target,
        {requests.begin(), requests.begin() + std::min<ptrdiff_t>(o.num_warmups, std::ssize(requests))},
        model, false, "warm-up");
  double begin = steady_seconds();
  std::vector<Outcome> outcomes = run_requests(o, target, requests, model, true, "requests");
  Json result = summarise(o.report, outcomes, begin, steady_seconds() - begin);
  for (const Outcome& outcome : outcomes)
    if (!outcome.ok) {
      fprintf(stderr, "first failure: %s\n", outcome.error.c_str());
      break;
    }
  if (o.save_detailed) add_details(outcomes, result);
  if (o.save_result || o.append_result) save(o, model, result);
  return result["completed"].get<int64_t>() > 0 ? 0 : 1;
}

void add_flags(CLI::App& app, ServeBenchOptions& o) {
  const char* server = "Server";
  app.add_option("--backend,--endpoint-type", o.backend, "openai, vllm or openai-chat")
      ->group(server)
      ->capture_default_str();
  app.add_option("--base-url", o.base_url, "http://HOST:PORT, instead of host and port")->group(server);
  app.add_option("--host", o.host, "")->group(server)->capture_default_str();
  app.add_option("--port", o.port, "")->group(server)->capture_default_str();
  app.add_option("--endpoint", o.endpoint, "Path (default: the backend's)")->group(server);
  app.add_option("--header", o.headers, "KEY=VALUE")
      ->group(server)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--model", o.model, "Default: the first that the server names")->group(server);
  app.add_option("--served-model-name", o.served_model_name, "Name in requests, if not --model")
      ->group(server);
  app.add_option("--tokenizer", o.tokenizer, "Local folder; default: --model, else the server's /tokenize")
      ->group(server);
  app.add_option("--ready-check-timeout-sec", o.ready_timeout, "Wait for the server")->group(server);
  const char* load = "Load";
  app.add_option("--request-rate", o.report.request_rate, "Requests a second, or inf")
      ->group(load)
      ->capture_default_str();
  app.add_option("--burstiness", o.burstiness, "Gamma shape of the gaps; 1: Poisson")
      ->group(load)
      ->capture_default_str();
  app.add_option("--max-concurrency", o.report.max_concurrency, "Requests in flight; 0: no limit")
      ->group(load)
      ->capture_default_str();
  app.add_option("--num-warmups", o.num_warmups, "")->group(load)->capture_default_str();
  app.add_option("--seed", o.data.seed, "")->group(load)->capture_default_str();
  app.add_option("--request-id-prefix", o.request_id_prefix, "")->group(load)->capture_default_str();
  const char* sampling = "Requests";
  app.add_flag("--ignore-eos", o.ignore_eos, "Always generate the full length")->group(sampling);
  app.add_option("--logprobs", o.logprobs, "")->group(sampling);
  app.add_option("--temperature", o.temperature, "")->group(sampling);
  app.add_option("--top-p", o.top_p, "")->group(sampling);
  app.add_option("--top-k", o.top_k, "")->group(sampling);
  app.add_option("--min-p", o.min_p, "")->group(sampling);
  app.add_option("--frequency-penalty", o.frequency_penalty, "")->group(sampling);
  app.add_option("--presence-penalty", o.presence_penalty, "")->group(sampling);
  app.add_option("--repetition-penalty", o.repetition_penalty, "")->group(sampling);
  app.add_option("--extra-body", o.extra_body, "JSON merged into each request")->group(sampling);
  const char* result = "Result";
  app.add_option("--percentile-metrics", o.report.percentile_metrics, "Of ttft, tpot, itl, e2el")
      ->group(result)
      ->capture_default_str();
  app.add_option("--metric-percentiles", o.report.metric_percentiles, "")
      ->group(result)
      ->capture_default_str();
  app.add_option("--goodput", o.report.goodput, "METRIC:MS ...")
      ->group(result)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1)
      ->trigger_on_parse();
  app.add_flag("--save-result", o.save_result, "Write a JSON file")->group(result);
  app.add_flag("--save-detailed", o.save_detailed, "... with every request")->group(result);
  app.add_flag("--append-result", o.append_result, "Append to the file")->group(result);
  app.add_option("--result-dir", o.result_dir, "")->group(result);
  app.add_option("--result-filename", o.result_filename, "")->group(result);
  app.add_option("--metadata", o.metadata, "KEY=VALUE ...")
      ->group(result)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1)
      ->trigger_on_parse();
  app.add_option("--label", o.label, "")->group(result);
  app.add_flag("--disable-tqdm,--trust-remote-code,--insecure,--skip-tokenizer-init", o.disable_tqdm, "")
      ->group("");
}

}  // namespace

Command bench_serve_command() {
  return {"bench serve", "Measure a running server", [](CLI::App& app) {
            auto o = std::make_shared<ServeBenchOptions>();
            add_flags(app, *o);
            add_dataset_flags(app, o->data);
            return [=] { return serve_bench(*o); };
          }};
}

}  // namespace octavo
