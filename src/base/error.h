// Errors by who is at fault (DESIGN.md, section 4).
//   Error   bad input from outside: a file, a flag, a config. Thrown at load, caught in main; names the thing
//   at fault. CHECK   our own bug: prints the condition and aborts. Always on.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace octavo {

/// Joins anything that streams into one string: str("tensor ", name, ": ", n, " bytes").
template <class... Args>
std::string str(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what) : std::runtime_error(what) {}
  template <class A, class B, class... Args>
  Error(const A& a, const B& b, const Args&... rest) : std::runtime_error(str(a, b, rest...)) {}
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace octavo

#define OCTAVO_CHECK(condition, ...)                                                                        \
  do {                                                                                                      \
    if (!(condition)) [[unlikely]]                                                                          \
      ::octavo::check_failed(__FILE__, __LINE__, #condition, ::octavo::str("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)
