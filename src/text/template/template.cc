#include "text/template/template.h"

#include "text/template/interpreter.h"
#include "text/template/parser.h"

namespace octavo::jinja {

Template::Template(std::string_view source, const TemplateLimits& limits)
    : limits_(limits), ast_(std::make_unique<const Ast>(parse(source, limits))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const nlohmann::ordered_json& context, std::optional<int64_t> now_unix) const {
  Runtime runtime(limits_, now_unix);
  Interpreter interpreter(*ast_, runtime);
  for (const auto& [name, value] : context.items())
    interpreter.set_global(name, from_json(runtime.budget, value));
  return interpreter.run();
}

}  // namespace octavo::jinja
