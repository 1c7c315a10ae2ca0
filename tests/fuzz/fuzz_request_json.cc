// Request bodies: bounded parsing, typed fields, chat messages.
#include "frontend/api_error.h"
#include "server/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace octavo;
  try {
    Json body = parse_object({reinterpret_cast<const char*>(data), size});
    Fields fields(body);
    (void)dump(body);
    for (const char* key : {"prompt", "n", "stop", "logit_bias", "messages"}) {
      try {
        (void)fields.texts(key);
        (void)fields.integers(key);
        (void)fields.object(key);
      } catch (const ApiError&) {
      }
    }
  } catch (const ApiError&) {
  }
  return 0;
}
