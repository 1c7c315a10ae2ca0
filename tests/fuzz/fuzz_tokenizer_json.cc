// A tokenizer.json and a text: everything before the first zero byte of the input is the file, the rest the
// text. Any file is refused with an Error or gives a tokenizer that works: its text is valid UTF-8 and
// streams.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view text = zero == input.npos ? "Hello  w\xF0\x9F\x98rld 12" : input.substr(zero + 1);
  try {
    const auto tokenizer = octavo::Tokenizer::from_json(input.substr(0, zero), "fuzz");
    const std::vector<int32_t> ids = tokenizer->encode(text, true);
    if (!octavo::tok::is_valid_utf8(tokenizer->decode(ids, false))) std::abort();
    octavo::Detokenizer detokenizer(*tokenizer, std::span(ids).first(ids.size() / 2), true);
    for (const int32_t id : ids) {
      if (!octavo::tok::is_valid_utf8(detokenizer.push(id))) std::abort();
    }
    detokenizer.finish();
  } catch (const octavo::Error&) {
  }
  return 0;
}
