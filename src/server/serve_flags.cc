#include "server/serve_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/error.h"
#include "server/request_json.h"

namespace octavo {
namespace {

/// A list of arguments or, as vLLM writes it, one JSON array: CLI11 splits that at its commas, the quotes
/// remain. Given again (a config file's comes first), the list replaces the earlier one.
void add_list(CLI::App& app, const char* flag, std::vector<std::string>& value, const char* help,
              const char* group) {
  app.add_option_function<std::vector<std::string>>(
         flag,
         [&value](const std::vector<std::string>& given) {
           value.clear();
           for (std::string item : given) {
             if (item.size() >= 2 && item.front() == '"' && item.back() == '"')
               item = item.substr(1, item.size() - 2);
             if (!item.empty()) value.push_back(std::move(item));
           }
         },
         help)
      ->group(group)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, -1)
      ->trigger_on_parse();
}

void add_network_flags(CLI::App& app, ServerOptions& o) {
  const char* group = "Server";
  app.add_option("--host", o.http.host, "Address to listen on (default: all)")->group(group);
  app.add_option("--port", o.http.port, "Port; 0: any free one")->group(group)->capture_default_str();
  app.add_option("--uds", o.http.unix_socket, "Listen on this unix socket instead")->group(group);
  add_list(app, "--api-key", o.api_keys, "Keys, one of which clients must send (VLLM_API_KEY)", group);
  add_list(app, "--served-model-name", o.served_model_names, "Names of the model; replies carry the first",
           group);
  app.add_option("--root-path", o.root_path, "Path prefix that a proxy leaves in")->group(group);
  app.add_option("--shutdown-timeout", o.shutdown_timeout,
                 "Seconds for running requests after SIGTERM; 0: end them at once")
      ->group(group)
      ->capture_default_str();
  add_list(app, "--allowed-origins", o.allowed_origins, "CORS origins (default: none)", group);
  add_list(app, "--allowed-methods", o.allowed_methods, "CORS methods (default: all)", group);
  add_list(app, "--allowed-headers", o.allowed_headers, "CORS headers (default: all)", group);
  app.add_flag("--allow-credentials,!--no-allow-credentials", o.allow_credentials, "CORS with credentials")
      ->group(group);
  app.add_option("--max-body-size", o.http.max_body_bytes, "Largest request body")
      ->group(group)
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--h11-max-incomplete-event-size", o.http.max_header_bytes, "Largest request header")
      ->group(group)
      ->capture_default_str();
  app.add_option("--h11-max-header-count", o.http.max_header_count, "Most header fields")
      ->group(group)
      ->capture_default_str();
}

void add_reply_flags(CLI::App& app, ServerOptions& o) {
  const char* group = "Replies";
  app.add_option("--response-role", o.response_role, "Role of replies")->group(group)->capture_default_str();
  app.add_option_function<std::string>(
         "--default-chat-template-kwargs",
         [&o](const std::string& text) {
           o.default_chat_template_kwargs = Json::parse(text, nullptr, false);
           if (!o.default_chat_template_kwargs.is_object())
             throw Error("--default-chat-template-kwargs ", text, ": expected a JSON object");
         },
         "Arguments of the chat template, as JSON")
      ->group(group);
  app.add_flag("--trust-request-chat-template,!--no-trust-request-chat-template",
               o.trust_request_chat_template, "Accept templates in requests")
      ->group(group);
  app.add_flag("--return-tokens-as-token-ids,!--no-return-tokens-as-token-ids", o.return_tokens_as_token_ids,
               "Logprobs say token_id:N")
      ->group(group);
  app.add_flag("--enable-prompt-tokens-details,!--no-enable-prompt-tokens-details",
               o.enable_prompt_tokens_details, "usage tells the cached tokens")
      ->group(group);
  app.add_flag("--enable-force-include-usage,!--no-enable-force-include-usage", o.enable_force_include_usage,
               "Every stream carries usage")
      ->group(group);
  app.add_flag("--enable-request-id-headers,!--no-enable-request-id-headers", o.enable_request_id_headers,
               "Echo X-Request-Id")
      ->group(group);
  app.add_option("--stream-interval", o.stream_interval, "Tokens in a streamed chunk")
      ->group(group)
      ->capture_default_str();
  app.add_option_function<double>(
         "--sse-keep-alive-interval",
         [&o](double s) {
           o.http.sse_keep_alive = std::chrono::milliseconds(static_cast<int64_t>(s * 1000));
         },
         "Seconds between comment lines of a silent stream; 0: none")
      ->group(group);
}

void add_log_flags(CLI::App& app, ServerOptions& o) {
  const char* group = "Logs";
  app.add_flag("--disable-log-stats,!--no-disable-log-stats", o.disable_log_stats, "No line every 10 s")
      ->group(group);
  app.add_flag("--enable-log-requests,!--no-enable-log-requests", o.enable_log_requests, "Log each request")
      ->group(group);
  app.add_flag("--enable-server-load-tracking,!--no-enable-server-load-tracking",
               o.enable_server_load_tracking, "/load counts")
      ->group(group);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

void add_server_flags(CLI::App& app, ServerOptions& options) {
  add_network_flags(app, options);
  add_reply_flags(app, options);
  add_log_flags(app, options);
}

void finish_server_options(ServerOptions& options, const std::string& model) {
  if (options.api_keys.empty() && !environment("VLLM_API_KEY").empty())
    options.api_keys = {environment("VLLM_API_KEY")};
  for (const std::string& key : options.api_keys)
    if (key.empty()) throw Error("--api-key must not be empty");
  if (options.served_model_names.empty()) options.served_model_names = {model};
  options.model_root = model;
  if (options.http.port < 0 || options.http.port > 65535)
    throw Error("--port ", options.http.port, ": expected 0 to 65535");
  if (options.stream_interval < 1) throw Error("--stream-interval must be at least 1");
  if (std::string seconds = environment("VLLM_HTTP_TIMEOUT_KEEP_ALIVE"); !seconds.empty())
    options.http.keep_alive =
        std::chrono::milliseconds(static_cast<int64_t>(std::atof(seconds.c_str()) * 1000));
  options.dev_mode = environment("VLLM_SERVER_DEV_MODE") == "1";
}

}  // namespace octavo
