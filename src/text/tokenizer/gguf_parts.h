#pragma once

#include "text/tokenizer/gguf_vocab.h"
#include "text/tokenizer/parts.h"

namespace octavo::tok {

/// The components that the Hugging Face tokenizer of the same model has: GGUF names some of them, the rest
/// follows from the model and the pre-tokenizer's name. Error if the vocabulary contradicts itself.
Parts parts_from_gguf(const GgufVocab& vocab);

}  // namespace octavo::tok
