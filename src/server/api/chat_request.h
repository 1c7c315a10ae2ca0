// The messages of a chat request, checked and in the form that templates expect.
#pragma once

#include "frontend/generate.h"
#include "server/routes.h"

namespace octavo {

/// Messages, tools, template and its arguments. ApiError 400 for what is malformed or unsupported. Also used
/// by /tokenize.
ChatPrompt read_chat(const ServerContext& context, const Fields& fields);

}  // namespace octavo
