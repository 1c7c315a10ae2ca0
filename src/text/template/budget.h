// Limits of one rendering and the error that a template raises. A template is untrusted input: it may loop,
// recurse and allocate, so every step, byte and level is charged to a Budget, which throws when a limit is
// passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"

namespace octavo {

/// A template that does not parse, or fails or refuses (raise_exception) while rendering. Line and column
/// count from 1; 0 where the fault has no place in the source.
class TemplateError : public Error {
 public:
  TemplateError(const std::string& message, int line, int column)
      : Error(line ? str("chat template, line ", line, ", column ", column, ": ", message)
                   : str("chat template: ", message)),
        message_(message),
        line_(line),
        column_(column) {}

  const std::string& message() const { return message_; }
  int line() const { return line_; }
  int column() const { return column_; }

 private:
  std::string message_;
  int line_, column_;
};

struct TemplateLimits {
  int64_t steps = 100'000'000;  // nodes evaluated, plus one per 256 bytes moved: some seconds at most
  size_t output_bytes = size_t{64} << 20;   // all text being built at one time
  size_t memory_bytes = size_t{512} << 20;  // live values, input included
  int depth = 1500;                         // nested evaluations (C++ stack: about 1 MB)
  int value_depth = 200;                    // lists within lists
  int source_depth = 200;                   // brackets and blocks within each other, operators in one chain
  size_t source_bytes = size_t{4} << 20;
  int64_t range_items = 100'000;  // jinja2's sandbox has the same
};

namespace jinja {

struct Position {
  int line = 0, column = 0;
};

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits), steps_left_(limits.steps) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const TemplateLimits& limits() const { return limits_; }

  void step(size_t bytes = 0) {
    steps_left_ -= 1 + static_cast<int64_t>(bytes >> 8);
    if (steps_left_ < 0) [[unlikely]]
      fail("the template takes too many steps");
  }
  void allocate(size_t bytes) {
    if (bytes > limits_.memory_bytes - live_) [[unlikely]]
      fail("the template takes too much memory");
    live_ += bytes;
  }
  void release(size_t bytes) { live_ -= bytes; }

  /// Refuses a text of `bytes` before it is built.
  void check_text(size_t bytes) {
    if (bytes > limits_.output_bytes) [[unlikely]]
      fail("the template makes too much text");
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw TemplateError(message, position.line, position.column);
  }

  Position position;  // of the node being evaluated, for errors

 private:
  const TemplateLimits limits_;
  int64_t steps_left_;
  size_t live_ = 0;
};

/// Bytes that a heap object holds on its budget; none for constants, which belong to the compiled template.
class Charge {
 public:
  Charge() = default;
  Charge(Budget* budget, size_t bytes) : budget_(budget), bytes_(bytes) {
    if (budget_) budget_->allocate(bytes_);
  }
  Charge(Charge&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  Charge& operator=(Charge&&) = delete;
  ~Charge() {
    if (budget_) budget_->release(bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace jinja
}  // namespace octavo
