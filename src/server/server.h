// `octavo serve`: the OpenAI API over one Frontend.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "server/http.h"

namespace octavo {

class Metrics;

struct ServerOptions {
  HttpOptions http;
  std::vector<std::string> api_keys;            ///< empty: open
  std::vector<std::string> served_model_names;  ///< the first is the one that replies carry
  std::string model_root;                       ///< "root" of /v1/models
  std::string root_path;
  std::string response_role = "assistant";
  nlohmann::ordered_json default_chat_template_kwargs = nlohmann::ordered_json::object();
  bool trust_request_chat_template = false;
  bool return_tokens_as_token_ids = false;
  bool enable_prompt_tokens_details = false, enable_force_include_usage = false;
  bool enable_request_id_headers = false, enable_server_load_tracking = false, enable_log_requests = false;
  bool disable_log_stats = false, dev_mode = false, access_log = true;
  std::vector<std::string> allowed_origins, allowed_methods{"*"}, allowed_headers{"*"};
  bool allow_credentials = false;
  int stream_interval = 1;
  double shutdown_timeout = 0;  ///< seconds for running requests after SIGTERM
};

/// What endpoints see.
struct ServerContext {
  Frontend& frontend;
  const ServerOptions& options;
  Metrics& metrics;
  const int64_t started;  ///< unix seconds
  std::atomic<bool> draining{false};
  std::atomic<int64_t> load{0};  ///< generation requests in flight
};

/// Serves until SIGTERM or SIGINT and the drain are done; returns the exit code. Calls `ready` with the
/// address once it listens.
int run_server(Frontend& frontend, ServerOptions options,
               const std::function<void(const std::string&)>& ready);

}  // namespace octavo
