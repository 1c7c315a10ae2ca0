// octavo run MODEL [-p TEXT]: one prompt, or a chat on the terminal.
#include <editline/readline.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "frontend/api_error.h"
#include "frontend/load_engine.h"

namespace octavo {
namespace {

struct RunOptions {
  EngineOptions engine;
  std::optional<std::string> prompt;
  std::string system_prompt;
  bool raw = false, quiet = false;
  SamplingFields sampling;
};

volatile std::sig_atomic_t interrupted = 0;

using Json = nlohmann::ordered_json;

/// Streams one reply to stdout; Ctrl-C ends it early. Returns its text.
std::string stream_reply(Frontend& frontend, const GenerateRequest& request, bool quiet) {
  interrupted = 0;
  double start = steady_seconds(), first = 0;
  std::unique_ptr<Stream> stream = frontend.submit(request);
  std::string text;
  TextDelta delta;
  while (!stream->done() && !interrupted) {
    if (!stream->next(delta)) {
      frontend.wait(0.2);
      continue;
    }
    if (first == 0) first = steady_seconds();
    fwrite(delta.text.data(), 1, delta.text.size(), stdout);
    fflush(stdout);
    text += delta.text;
    if (delta.finish == FinishReason::kError) throw Error("generation failed: ", delta.error);
  }
  printf("\n");
  fflush(stdout);
  Usage usage = stream->usage();
  double decode = steady_seconds() - first;
  if (!quiet)
    fprintf(stderr, "[%lld prompt tokens, first token after %.0f ms; %lld tokens, %.1f tokens/s]\n",
            static_cast<long long>(usage.prompt_tokens), 1000 * (first - start),
            static_cast<long long>(usage.completion_tokens),
            usage.completion_tokens > 1 ? static_cast<double>(usage.completion_tokens - 1) / decode : 0.0);
  return text;
}

GenerateRequest chat_request(const RunOptions& options, const Json& messages) {
  GenerateRequest request{.prompt = ChatPrompt{.messages = messages, .tools = nullptr, .documents = nullptr},
                          .add_special_tokens = false};
  request.sampling = options.sampling;
  return request;
}

/// A model without a chat template continues the text.
int run_once(const RunOptions& options, LoadedModel& model) {
  GenerateRequest request;
  if (options.raw || !model.text->has_chat_template()) {
    request = {.prompt = *options.prompt, .sampling = options.sampling};
    if (!request.sampling.max_tokens) request.sampling.max_tokens = 256;
  } else {
    Json messages = Json::array();
    if (!options.system_prompt.empty())
      messages.push_back({{"role", "system"}, {"content", options.system_prompt}});
    messages.push_back({{"role", "user"}, {"content", *options.prompt}});
    request = chat_request(options, messages);
  }
  stream_reply(*model.frontend, request, options.quiet);
  return 0;
}

/// One line of input, with editing and history on a terminal. False at the end of input.
bool read_line(bool terminal, std::string& line) {
  if (!terminal) {
    line.clear();
    for (int c; (c = getchar()) != EOF;) {
      if (c == '\n') return true;
      line += static_cast<char>(c);
    }
    return !line.empty();
  }
  char* typed = readline("> ");
  if (!typed) return false;
  line = typed;
  if (!line.empty()) add_history(typed);
  free(typed);
  return true;
}

constexpr const char* kHelp =
    "/reset  forget the conversation\n/exit   leave (or Ctrl-D)\nCtrl-C  stop a reply\n";

int chat(const RunOptions& options, LoadedModel& model) {
  bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  if (terminal) fprintf(stderr, "Chat with %s. /help for commands.\n", options.engine.model.c_str());
  Json start = Json::array(), messages;
  if (!options.system_prompt.empty())
    start.push_back({{"role", "system"}, {"content", options.system_prompt}});
  messages = start;
  for (std::string line; read_line(terminal, line);) {
    if (line.empty()) continue;
    if (line == "/exit" || line == "/quit") break;
    if (line == "/reset") messages = start;
    if (line == "/help") fprintf(stderr, "%s", kHelp);
    if (line[0] == '/') continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    try {
      std::string reply = stream_reply(*model.frontend, chat_request(options, messages), options.quiet);
      messages.push_back({{"role", "assistant"}, {"content", reply}});
    } catch (const ApiError& e) {
      fprintf(stderr, "%s\n", e.what());
      messages.erase(messages.size() - 1);
    }
  }
  return 0;
}

int run(RunOptions& options) {
  finish_engine_options(options.engine);
  std::unique_ptr<LoadedModel> model = load_engine(options.engine);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  try {
    if (options.prompt) return run_once(options, *model);
    if (!model->text->has_chat_template())
      throw Error(options.engine.model, " has no chat template: use -p TEXT, or --chat-template");
    return chat(options, *model);
  } catch (const ApiError& e) {
    throw Error(e.what());
  }
}

}  // namespace

Command run_command() {
  return {"run", "One prompt, or a chat on the terminal", [](CLI::App& app) {
            auto options = std::make_shared<RunOptions>();
            SamplingFields& sampling = options->sampling;
            const char* group = "Generation";
            app.add_option("-p,--prompt", options->prompt, "The prompt; without it, a chat")->group(group);
            app.add_option("--system-prompt", options->system_prompt, "First message of the conversation")
                ->group(group);
            app.add_flag("--raw", options->raw, "Continue the text of -p, without the chat template")
                ->group(group);
            app.add_option("-n,--max-tokens", sampling.max_tokens, "Most tokens of a reply")->group(group);
            app.add_option("--temperature", sampling.temperature, "0: greedy (default: the model's)")
                ->group(group);
            app.add_option("--top-p", sampling.top_p, "")->group(group);
            app.add_option("--top-k", sampling.top_k, "")->group(group);
            app.add_option("--sampling-seed", sampling.seed, "Same seed, same reply")->group(group);
            app.add_option("--stop", sampling.stop, "Stop strings")
                ->group(group)
                ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
            app.add_flag("--ignore-eos", sampling.ignore_eos, "Go on after the end")->group(group);
            app.add_flag("--quiet", options->quiet, "No statistics")->group(group);
            add_engine_flags(app, options->engine);
            return [=] { return run(*options); };
          }};
}

}  // namespace octavo
