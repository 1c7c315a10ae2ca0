// Does a template walk over the parts of a message's content, or print it as a text?
#pragma once

#include "text/template/ast.h"

namespace octavo::jinja {

/// True if some loop runs over the content of a message: message.content, a variable set from it, or a
/// macro's parameter that gets it. Messages are the elements of the variable `messages` and of what is set
/// from it.
bool loops_over_content(const Ast& ast);

}  // namespace octavo::jinja
