// Prometheus metrics under vLLM's names (surface document, section 4).
#pragma once

#include <memory>
#include <string>

#include "frontend/frontend.h"
#include "server/message.h"

namespace octavo {

class Metrics : public RequestObserver {
 public:
  Metrics(Frontend& frontend, const std::string& model_name);
  ~Metrics() override;

  void on_first_token(double seconds) override;
  void on_tokens(int64_t count, double seconds_each) override;
  void on_finish(const RequestReport& report) override;
  void on_http(const HttpRecord& record);

  /// The text exposition format.
  std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "Engine 000: Avg prompt throughput: ..." since the last call; empty when nothing happened.
class StatsLine {
 public:
  explicit StatsLine(Frontend& frontend) : frontend_(frontend) {}
  std::string next(double now);

 private:
  Frontend& frontend_;
  EngineStats last_;
  double time_ = 0;
  bool was_active_ = false;
};

}  // namespace octavo
