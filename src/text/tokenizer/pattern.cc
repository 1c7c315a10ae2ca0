#include "text/tokenizer/pattern.h"

#include "text/tokenizer/json_view.h"

namespace octavo::tok {

Pattern Pattern::regex(std::string_view pattern, const std::string& where) {
  if (const Scanner scanner = find_scanner(pattern)) return Pattern(scanner);
  return Pattern(Regex(pattern, where));
}

Pattern Pattern::from_json(const JsonView& json) {
  if (json.element().is_string()) return literal(std::string(json.text()));
  if (const auto text = json.find("String")) return literal(std::string(text->text()));
  return regex(json.text("Regex"), json.where());
}

void Pattern::find_all(std::string_view text, Spans& out) const {
  if (const auto* scanner = std::get_if<Scanner>(&kind_)) {
    (*scanner)(text, out);
  } else if (const auto* regex = std::get_if<Regex>(&kind_)) {
    regex->find_all(text, out);
  } else {
    const std::string& literal = std::get<std::string>(kind_);
    if (literal.empty()) return;
    for (size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size())) {
      out.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + literal.size())});
    }
  }
}

}  // namespace octavo::tok
