// The endpoints: one line each in routes.cc, one file each in api/.
#pragma once

#include "server/request_json.h"
#include "server/server.h"

namespace octavo {

using Endpoint = Reply (*)(ServerContext&, const HttpRequest&);

/// Authentication, CORS, the route, and errors as replies. Does not throw.
Reply dispatch(ServerContext& context, HttpRequest& request);

Reply json_reply(const Json& body, int status = 200);
Reply error_reply(int status, const std::string& type, const std::string& message,
                  const std::string& param = "");
/// {"error": {...}} as error replies and error events carry it.
Json error_body(int status, const std::string& type, const std::string& message,
                const std::string& param = "");

// api/*.cc
Reply completions(ServerContext& context, const HttpRequest& request);
Reply chat_completions(ServerContext& context, const HttpRequest& request);
Reply models(ServerContext& context, const HttpRequest& request);
Reply health(ServerContext& context, const HttpRequest& request);
Reply version(ServerContext& context, const HttpRequest& request);
Reply server_load(ServerContext& context, const HttpRequest& request);
Reply metrics(ServerContext& context, const HttpRequest& request);
Reply tokenize(ServerContext& context, const HttpRequest& request);
Reply detokenize(ServerContext& context, const HttpRequest& request);
Reply reset_prefix_cache(ServerContext& context, const HttpRequest& request);

}  // namespace octavo
