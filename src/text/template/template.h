// A compiled Jinja template: the language that Hugging Face chat templates use, as transformers sets it up
// (trim_blocks, lstrip_blocks, tojson, raise_exception, strftime_now, generation blocks, loop controls).
// Anything else in the source is an error of the constructor. Rendering is const and thread safe, and can
// reach nothing but the values it is given.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/budget.h"

namespace octavo::jinja {

struct Ast;

class Template {
 public:
  /// Throws TemplateError.
  explicit Template(std::string_view source, const TemplateLimits& limits = {});
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// `context` is an object: the variables. `now_unix` is the time of strftime_now, in seconds; the clock if
  /// absent. Throws TemplateError.
  std::string render(const nlohmann::ordered_json& context, std::optional<int64_t> now_unix = {}) const;

  const Ast& ast() const { return *ast_; }

 private:
  TemplateLimits limits_;
  std::unique_ptr<const Ast> ast_;
};

}  // namespace octavo::jinja
