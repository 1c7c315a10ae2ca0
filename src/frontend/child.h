// One sequence of a Stream: reads its TokenStream, decodes, looks for stop strings.
#pragma once

#include <memory>
#include <string>

#include "engine/token_stream.h"
#include "frontend/generate.h"
#include "frontend/stop_matcher.h"
#include "frontend/text.h"

namespace octavo {

class Child {
 public:
  Child(const Text& text, std::shared_ptr<TokenStream> tokens, const Prepared& request);

  /// True if a delta was made. After one with a stop_string the engine may still be running.
  bool next(TextDelta& out, int64_t min_tokens);
  bool ended() const { return ended_; }
  /// Tokens that count: up to the one that completed a stop string.
  int64_t count() const { return read_; }
  const TokenStream& tokens() const { return *tokens_; }

 private:
  bool is_stop_token(int64_t i) const;
  bool read_token(TextDelta& out);
  void end(TextDelta& out);

  std::shared_ptr<TokenStream> tokens_;
  std::unique_ptr<TextDecoder> decoder_;
  StopMatcher stops_;
  const Prepared& request_;
  int64_t read_ = 0;
  bool ended_ = false;
};

}  // namespace octavo
