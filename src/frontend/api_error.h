// A request that we refuse or that failed, in the terms of the OpenAI API (surface document, section 3.8).
#pragma once

#include <stdexcept>
#include <string>

#include "base/error.h"

namespace octavo {

/// Thrown while a request is read and prepared, before the engine sees it; never from the engine loop.
struct ApiError : std::runtime_error {
  ApiError(int http_status, std::string error_type, const std::string& message, std::string parameter = "")
      : std::runtime_error(message),
        status(http_status),
        type(std::move(error_type)),
        param(std::move(parameter)) {}

  int status;         ///< HTTP status; also the "code" of the body
  std::string type;   ///< "BadRequestError", "NotFoundError", ...
  std::string param;  ///< the field at fault, empty for none
};

/// 400 about one field.
[[noreturn]] inline void bad_request(const std::string& param, const std::string& message) {
  throw ApiError(400, "BadRequestError", message, param);
}

[[noreturn]] inline void unavailable(const std::string& message) {
  throw ApiError(503, "ServiceUnavailableError", message);
}

}  // namespace octavo
