// Endpoints without a network: dispatch() and the work it returns, over a fake model.
#include "server/routes.h"

#include <gtest/gtest.h>

#include "engine/fake_model.h"
#include "frontend/fake_text.h"
#include "server/metrics.h"

namespace octavo {
namespace {

class RoutesTest : public ::testing::Test {
 protected:
  static EngineConfig config() {
    EngineConfig out;
    out.kv_cache_bytes = 8 << 20;
    out.max_model_len = 512;
    return out;
  }
  static ServerOptions options() {
    ServerOptions out;
    out.served_model_names = {"fake"};
    return out;
  }

  Reply send(const std::string& path, Json body) {
    body["logit_bias"] = {{std::to_string(kFakeByte), -100}};  // never sampled: its logits are NaN
    HttpRequest request{.method = "POST",
                        .path = path,
                        .query = "",
                        .headers = {{"content-type", "application/json"}},
                        .body = body.dump()};
    return dispatch(context_, request);
  }

  /// Status and the whole body.
  std::pair<int, std::string> run(const std::string& path, const Json& body) {
    Reply reply = send(path, body);
    if (!reply.work) return {reply.status, reply.body};
    reply.work->set_waker([] {});
    std::string out;
    while (reply.work->advance(out, reply.status) != ReplyWork::State::kDone) frontend_.wait(0.05);
    return {reply.status, out};
  }

  Team team_{TeamOptions{{0}, false}};
  FakeText text_;
  Engine engine_{std::make_unique<FakeModel>(FakeModelOptions{.nan_token = kFakeByte}), config(), team_,
                 kernels::select()};
  Frontend frontend_{engine_, text_, {.defaults = {}, .eos_ids = {kFakeEos}}};
  const ServerOptions options_ = options();
  Metrics metrics_{frontend_, "fake"};
  ServerContext context_{frontend_, options_, metrics_, 1};
  void SetUp() override {
    frontend_.set_observer(&metrics_);
    engine_.start();
  }
  void TearDown() override { engine_.stop(); }
};

TEST_F(RoutesTest, MetricsCountKnownRoutesOnly) {
  auto counted = [&](const std::string& method, const std::string& path) {
    HttpRequest request{.method = method, .path = path, .query = "", .headers = {}, .body = ""};
    const char* route = dispatch(context_, request).route;
    return std::string(route ? route : "not counted");
  };
  EXPECT_EQ(counted("GET", "/v1/models"), "/v1/models");
  EXPECT_EQ(counted("POST", "/v1/completions"), "/v1/completions");  // a 400
  EXPECT_EQ(counted("GET", "/v1/completions"), "/v1/completions");   // a 405
  EXPECT_EQ(counted("GET", "/v1/anything"), "none");
  EXPECT_EQ(counted("GET", "/" + std::string(1000, 'x')), "none");
  for (const char* probe : {"/health", "/ping", "/version", "/load", "/metrics"})
    EXPECT_EQ(counted("GET", probe), "not counted");

  for (int status : {200, 200, 404, 499})
    metrics_.on_http({"/v1/models", status == 404 ? "BREW" : "GET", status, 10, 100, 0.3});
  std::string text = metrics_.text();
  for (const char* line : {
           "http_requests_total{handler=\"/v1/models\",method=\"GET\",status=\"2xx\"} 2",
           "http_requests_total{handler=\"/v1/models\",method=\"GET\",status=\"4xx\"} 1",
           "http_requests_total{handler=\"/v1/models\",method=\"other\",status=\"4xx\"} 1",
           "http_request_duration_seconds_count{handler=\"/v1/models\",method=\"GET\"} 3",
           "http_request_duration_seconds_bucket{handler=\"/v1/models\",method=\"GET\",le=\"0.1\"} 0",
           "http_request_duration_seconds_bucket{handler=\"/v1/models\",method=\"GET\",le=\"0.5\"} 3",
           "http_request_duration_highr_seconds_count 4",
           "http_request_size_bytes_sum{handler=\"/v1/models\"} 40",
           "http_response_size_bytes_count{handler=\"/v1/models\"} 4",
       })
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST_F(RoutesTest, WholeAndStreamedTextAgree) {
  Json body{{"prompt", "hello"}, {"max_tokens", 50}, {"temperature", 0}, {"ignore_eos", true}};
  auto [status, whole] = run("/v1/completions", body);
  ASSERT_EQ(status, 200);
  body["stream"] = true;
  std::string events = run("/v1/completions", body).second, text;
  for (size_t at = 0; (at = events.find("data: {", at)) != events.npos; ++at)
    text += Json::parse(events.substr(at + 6, events.find('\n', at) - at - 6))["choices"][0]["text"]
                .get<std::string>();
  EXPECT_EQ(text, Json::parse(whole)["choices"][0]["text"]);
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
}

TEST_F(RoutesTest, EngineErrorsAreReplies) {
  // A control character is kFakeByte, after which FakeModel's logits are NaN.
  auto [status, body] = run("/v1/completions", {{"prompt", "ab\x01"}, {"max_tokens", 5}});
  EXPECT_EQ(status, 500);
  EXPECT_EQ(Json::parse(body)["error"]["type"], "InternalServerError");
  std::string events =
      run("/v1/completions", {{"prompt", "ab\x01"}, {"max_tokens", 5}, {"stream", true}}).second;
  EXPECT_NE(events.find("\"error\""), events.npos);
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(run("/v1/completions", {{"prompt", "ab"}, {"max_tokens", 5}}).first, 200);
}

TEST_F(RoutesTest, DroppedWorkAborts) {
  for (int i = 0; i < 20; ++i)
    send("/v1/completions", {{"prompt", "x"}, {"max_tokens", 400}, {"n", 4}, {"ignore_eos", true}});
  for (int i = 0; i < 200 && frontend_.active() > 0; ++i) frontend_.wait(0.01);
  EXPECT_EQ(engine_.stats().running, 0);
  EXPECT_EQ(engine_.stats().kv_usage, 0);
  EXPECT_EQ(context_.load, 0);
}

TEST_F(RoutesTest, DrainRefusesNewWork) {
  context_.draining = true;
  EXPECT_EQ(send("/v1/completions", {{"prompt", "x"}}).status, 503);
  HttpRequest health{.method = "GET", .path = "/health", .query = "", .headers = {}, .body = ""};
  EXPECT_EQ(dispatch(context_, health).status, 503);
}

TEST_F(RoutesTest, SlowReaderIsBounded) {
  Reply reply = send("/v1/completions", {{"prompt", "x"},
                                         {"max_tokens", 400},
                                         {"n", 8},
                                         {"logprobs", 20},
                                         {"temperature", 1},
                                         {"stream", true},
                                         {"ignore_eos", true}});
  ASSERT_TRUE(reply.work);
  while (frontend_.active() > 0) frontend_.wait(0.05);  // all is generated, nothing was read
  size_t pieces = 0, largest = 0;
  for (auto state = ReplyWork::State::kMore; state != ReplyWork::State::kDone; ++pieces) {
    std::string out;
    state = reply.work->advance(out, reply.status);
    largest = std::max(largest, out.size());
  }
  EXPECT_GT(pieces, 5u);
  EXPECT_LT(largest, 4u << 20);
}

TEST_F(RoutesTest, MetricsText) {
  run("/v1/completions", {{"prompt", "hello"}, {"max_tokens", 5}, {"ignore_eos", true}});
  while (frontend_.active() > 0) frontend_.wait(0.05);
  std::string text = metrics_.text();
  EXPECT_NE(text.find("vllm:generation_tokens_total{"), text.npos);
  EXPECT_NE(text.find("vllm:time_to_first_token_seconds_bucket{"), text.npos);
  EXPECT_NE(text.find("le=\"2560\""), text.npos);
}

}  // namespace
}  // namespace octavo
