// What a Tokenizer is put together from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"

namespace octavo::tok {

struct Parts {
  std::vector<AddedToken> added;
  std::unique_ptr<Normalizer> normalizer;       // null: none
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: the text is one word
  std::unique_ptr<Model> model;
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<int32_t> bos_id, eos_id;  // where the file names them
};

/// Reads a tokenizer.json; Error starts with `origin`.
Parts parse_parts(std::string_view json, const std::string& origin);

}  // namespace octavo::tok
