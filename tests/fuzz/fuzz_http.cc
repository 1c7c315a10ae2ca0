// Bytes on a connection: a server on a unix socket pair's far end would need threads; the parts that read
// outside bytes are Beast's parser, with our limits, and the request target.
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/http.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace http = boost::beast::http;
  http::request_parser<http::string_body> parser;
  parser.header_limit(8192);
  parser.body_limit(65536);
  parser.eager(true);
  boost::beast::error_code error;
  boost::asio::const_buffer rest(data, size);
  while (rest.size() > 0 && !parser.is_done()) {
    size_t used = parser.put(rest, error);
    if (error || used == 0) break;
    rest += used;
  }
  std::string path, query;
  if (parser.is_header_done()) octavo::split_target(parser.get().target(), path, query);
  octavo::split_target({reinterpret_cast<const char*>(data), size}, path, query);
  return 0;
}
