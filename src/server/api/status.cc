// The small endpoints: /health, /ping, /version, /load, /v1/models, /reset_prefix_cache, /metrics.
#include "base/version.h"
#include "server/metrics.h"
#include "server/routes.h"

namespace octavo {

Reply health(ServerContext& context, const HttpRequest&) {
  return {.status = context.draining ? 503 : 200, .content_type = "", .body = ""};
}

Reply version(ServerContext&, const HttpRequest&) { return json_reply({{"version", kVersion}}); }

Reply server_load(ServerContext& context, const HttpRequest&) {
  return json_reply({{"server_load", context.options.enable_server_load_tracking ? context.load.load() : 0}});
}

Reply metrics(ServerContext& context, const HttpRequest&) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = context.metrics.text()};
}

Reply models(ServerContext& context, const HttpRequest&) {
  Json list = Json::array();
  for (const std::string& name : context.options.served_model_names)
    list.push_back({{"id", name},
                    {"object", "model"},
                    {"created", context.started},
                    {"owned_by", "octavo"},
                    {"root", context.options.model_root},
                    {"parent", nullptr},
                    {"max_model_len", context.frontend.max_model_len()},
                    {"permission", Json::array({{{"id", "modelperm-" + name},
                                                 {"object", "model_permission"},
                                                 {"created", context.started},
                                                 {"allow_create_engine", false},
                                                 {"allow_sampling", true},
                                                 {"allow_logprobs", true},
                                                 {"allow_search_indices", false},
                                                 {"allow_view", true},
                                                 {"allow_fine_tuning", false},
                                                 {"organization", "*"},
                                                 {"group", nullptr},
                                                 {"is_blocking", false}}})}});
  return json_reply({{"object", "list"}, {"data", std::move(list)}});
}

Reply reset_prefix_cache(ServerContext& context, const HttpRequest&) {
  return json_reply({{"success", context.frontend.engine().reset_prefix_cache()}});
}

}  // namespace octavo
