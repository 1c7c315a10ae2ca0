// Requests to every endpoint: the input's first line is the path, the rest the body. What is accepted
// generates on a fake model; the reader leaves after a few events, so that ends of all kinds are met.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/fake_model.h"
#include "frontend/fake_text.h"
#include "server/metrics.h"
#include "server/routes.h"

namespace {

using namespace octavo;

constexpr int kAdvances = 4;
constexpr double kWait = 0.002;  // seconds for the engine between two

struct Server {
  static EngineConfig config() {
    EngineConfig out;
    out.kv_cache_bytes = 1 << 20;
    out.max_model_len = 64;
    return out;
  }
  Team team{TeamOptions{{0}, false}};
  FakeText text;
  Engine engine{std::make_unique<FakeModel>(FakeModelOptions{.nan_token = kFakeByte}), config(), team,
                kernels::select("scalar")};
  Frontend frontend{engine, text, {.defaults = {}, .eos_ids = {kFakeEos}}};
  ServerOptions options;
  Metrics metrics{frontend, "fake"};
  ServerContext context{frontend, options, metrics, 1};
  Server() {
    options.served_model_names = {"fake"};
    options.dev_mode = true;
    options.access_log = false;
    frontend.set_observer(&metrics);
    engine.start();
  }
  ~Server() { engine.stop(); }
};

/// A body or an event that a client could not parse is a bug of ours.
void check_json(std::string_view text) {
  if (!nlohmann::json::accept(text)) std::abort();
}

void check_events(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    if (end == text.npos || !text.starts_with("data: ")) std::abort();
    if (const std::string_view event = text.substr(6, end - 6); event != "[DONE]") check_json(event);
    text.remove_prefix(end + 2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server server;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), size);
  HttpRequest request{.method = "POST",
                      .path = std::string(input.substr(0, line)),
                      .query = "",
                      .headers = {{"content-type", "application/json"}},
                      .body = std::string(input.substr(std::min(line + 1, size)))};
  Reply reply = dispatch(server.context, request);
  if (!reply.work) {
    if (reply.content_type == "application/json" && !reply.body.empty()) check_json(reply.body);
    return 0;
  }
  reply.work->set_waker([] {});
  std::string out;
  auto state = ReplyWork::State::kWaiting;
  for (int i = 0; i < kAdvances && state != ReplyWork::State::kDone; ++i) {
    state = reply.work->advance(out, reply.status);
    server.frontend.wait(kWait);
  }
  if (reply.event_stream)
    check_events(out);
  else if (state == ReplyWork::State::kDone)
    check_json(out);
  return 0;
}
