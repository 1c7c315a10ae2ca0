#include "server/routes.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/error.h"
#include "frontend/api_error.h"

namespace octavo {
namespace {

enum Flag : unsigned {
  kPlain = 0,
  kOpen = 1,   ///< needs no API key
  kDev = 2,    ///< only with VLLM_SERVER_DEV_MODE=1
  kDrain = 4,  ///< answered during a drain too
  kProbe = 8,  ///< not in the HTTP metrics
};

struct Route {
  const char* method;
  const char* path;
  Endpoint endpoint;
  unsigned flags;
};

constexpr Route kRoutes[] = {
    {"GET", "/health", health, kOpen | kProbe},
    {"GET", "/ping", health, kOpen | kProbe},
    {"POST", "/ping", health, kOpen | kProbe},
    {"GET", "/version", version, kDrain | kProbe},
    {"GET", "/load", server_load, kDrain | kProbe},
    {"GET", "/metrics", metrics, kDrain | kProbe},
    {"GET", "/v1/models", models, kDrain},
    {"POST", "/tokenize", tokenize, kPlain},
    {"POST", "/detokenize", detokenize, kPlain},
    {"POST", "/v1/completions", completions, kPlain},
    {"POST", "/v1/chat/completions", chat_completions, kPlain},
    {"POST", "/reset_prefix_cache", reset_prefix_cache, kDev},
};

/// Takes the same time wherever the strings differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 1 : b[i % b.size()]));
  return difference == 0;
}

bool authorised(const ServerContext& context, const HttpRequest& request) {
  if (context.options.api_keys.empty()) return true;
  std::string_view given = request.header("authorization");
  size_t space = given.find(' ');
  if (space == given.npos) return false;
  std::string scheme(given.substr(0, space));
  for (char& c : scheme) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  given = given.substr(space + 1);
  while (given.starts_with(' ')) given.remove_prefix(1);
  bool match = false;  // every key is compared, so that time tells nothing of which one was near
  for (const std::string& key : context.options.api_keys) match |= same_secret(given, key);
  return match && scheme == "bearer";
}

bool listed(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::any_of(list, [&](const std::string& item) { return item == "*" || item == value; });
}

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (const std::string& item : list) out += (out.empty() ? "" : ", ") + item;
  return out;
}

void add_cors(const ServerOptions& options, std::string_view origin, Reply& reply) {
  bool any = options.allowed_origins == std::vector<std::string>{"*"} && !options.allow_credentials;
  reply.headers.emplace_back("access-control-allow-origin", any ? "*" : std::string(origin));
  if (!any) reply.headers.emplace_back("vary", "Origin");
  if (options.allow_credentials) reply.headers.emplace_back("access-control-allow-credentials", "true");
}

Reply preflight(const ServerOptions& options, const HttpRequest& request) {
  Reply reply{.status = 200, .content_type = "text/plain; charset=utf-8", .body = "OK"};
  bool all = listed(options.allowed_methods, "*");
  reply.headers.emplace_back(
      "access-control-allow-methods",
      all ? "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" : joined(options.allowed_methods));
  std::string wanted(request.header("access-control-request-headers"));
  reply.headers.emplace_back("access-control-allow-headers",
                             listed(options.allowed_headers, "*") ? wanted : joined(options.allowed_headers));
  reply.headers.emplace_back("access-control-max-age", "600");
  return reply;
}

Reply detail(int status, const char* text) { return json_reply({{"detail", text}}, status); }

Reply route(ServerContext& context, HttpRequest& request) {
  const std::string& root = context.options.root_path;
  if (!root.empty() && request.path.starts_with(root) && request.path.size() > root.size() &&
      request.path[root.size()] == '/')
    request.path.erase(0, root.size());
  const Route* found = nullptr;
  bool known_path = false;
  for (const Route& candidate : kRoutes) {
    if (request.path != candidate.path || ((candidate.flags & kDev) && !context.options.dev_mode)) continue;
    known_path = true;
    if (request.method == candidate.method) found = &candidate;
  }
  bool open = found && (found->flags & kOpen);
  if (!open && !authorised(context, request)) {
    Reply reply = error_reply(401, "AuthenticationError",
                              "Unauthorized: a valid API key is required (Authorization: Bearer KEY).");
    reply.headers.emplace_back("www-authenticate", "Bearer");
    return reply;
  }
  if (!found) return known_path ? detail(405, "Method Not Allowed") : detail(404, "Not Found");
  if (context.draining && !(found->flags & (kDrain | kOpen))) unavailable("The server is shutting down.");
  return found->endpoint(context, request);
}

/// Paths that are none of ours count as one: clients must not be able to make series.
const char* counted_as(const std::string& path) {
  for (const Route& route : kRoutes)
    if (path == route.path) return route.flags & kProbe ? nullptr : route.path;
  return "none";
}

Reply route_or_error(ServerContext& context, HttpRequest& request) {
  try {
    return route(context, request);
  } catch (const ApiError& e) {
    return error_reply(e.status, e.type, e.what(), e.param);
  } catch (const Error& e) {  // what a request brought could not be read: a pattern gave up on its text, ...
    return error_reply(400, "BadRequestError", e.what());
  } catch (const std::exception& e) {
    spdlog::error("{} {}: {}", request.method, request.path, e.what());
    return error_reply(500, "InternalServerError", "Internal server error.");
  }
}

}  // namespace

Reply dispatch(ServerContext& context, HttpRequest& request) {
  const ServerOptions& options = context.options;
  std::string origin(request.header("origin"));
  bool cors = !origin.empty() && listed(options.allowed_origins, origin);
  bool is_preflight =
      request.method == "OPTIONS" && cors && !request.header("access-control-request-method").empty();
  Reply reply = is_preflight ? preflight(options, request) : route_or_error(context, request);
  reply.route = counted_as(request.path);
  if (cors) add_cors(options, origin, reply);
  if (options.enable_request_id_headers && !request.header("x-request-id").empty())
    reply.headers.emplace_back("x-request-id", std::string(request.header("x-request-id")));
  if (options.access_log && spdlog::should_log(spdlog::level::debug))
    spdlog::debug("{} {} {}", request.method, request.path, reply.status);
  return reply;
}

Json error_body(int status, const std::string& type, const std::string& message, const std::string& param) {
  Json inner{{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}};
  if (!param.empty()) inner["param"] = param;
  return {{"error", std::move(inner)}};
}

Reply error_reply(int status, const std::string& type, const std::string& message, const std::string& param) {
  return json_reply(error_body(status, type, message, param), status);
}

Reply json_reply(const Json& body, int status) { return {.status = status, .body = dump(body)}; }

}  // namespace octavo
