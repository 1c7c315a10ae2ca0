// What /v1/completions and /v1/chat/completions share: the common fields, and replies made from Streams.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frontend/frontend.h"
#include "server/routes.h"

namespace octavo {

/// Fields of a request that shape its reply.
struct ReplyShape {
  std::string id;     ///< without prefix
  std::string model;  ///< as replies name it
  int64_t created = 0;
  bool stream = false;
  bool include_usage = false, continuous_usage = false;
  bool token_ids_as_text = false;  ///< "token_id:7" instead of the token
  bool return_token_ids = false;
  bool cached_details = false;  ///< usage.prompt_tokens_details
  int64_t interval = 1;         ///< tokens per event
  int64_t n = 1;                ///< children per stream
};

/// The model must be one that is served (404), and what is not supported must not be asked for (400).
void check_model(const ServerContext& context, const Fields& fields);
void refuse_unsupported(const Fields& fields);
ReplyShape reply_shape(const ServerContext& context, const HttpRequest& request, const Fields& fields);
/// Everything of `out` but the prompt, logprobs and what chat and completions name differently.
void read_generation_fields(const HttpRequest& request, const Fields& fields, GenerateRequest& out);

Json usage_json(const Usage& usage, const ReplyShape& shape);
/// "data: {...}\n\n"
void append_event(std::string& out, const Json& value);

/// Drives the streams of one request. Choice i * n + j is child j of stream i.
class GenerationWork : public ReplyWork {
 public:
  GenerationWork(ServerContext& context, ReplyShape shape, std::vector<std::unique_ptr<Stream>> streams);
  ~GenerationWork() override;
  void set_waker(std::function<void()> wake) override;
  State advance(std::string& out, int& status) override;

 protected:
  virtual void on_delta(size_t stream, const TextDelta& delta, std::string& out) = 0;
  virtual void on_end(std::string& out) = 0;

  size_t choice(size_t stream, const TextDelta& delta) const { return stream * shape_.n + delta.index; }
  size_t choices() const { return streams_.size() * shape_.n; }
  Usage usage() const;

  ServerContext& context_;
  const ReplyShape shape_;
  const std::vector<std::unique_ptr<Stream>> streams_;

 private:
  void fail(int status, const std::string& message, std::string& out, int& reply_status);

  bool ended_ = false;
  size_t turn_ = 0;
};

}  // namespace octavo
