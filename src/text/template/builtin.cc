#include "text/template/builtin.h"

#include <algorithm>

namespace octavo::jinja {

int64_t Args::integer(Runtime& rt, size_t i, int64_t otherwise) const {
  if (!set(i)) return otherwise;
  need_defined(rt.budget, positional[i]);
  if (!positional[i].is_integral()) rt.fail("expected an integer, got a " + type_name(positional[i]));
  return positional[i].integer();
}

const std::string& Args::text(Runtime& rt, size_t i) const {
  need_defined(rt.budget, positional[i]);
  if (!positional[i].is_str()) rt.fail("expected a string, got a " + type_name(positional[i]));
  return positional[i].text();
}

void bind(Runtime& rt, const Builtin& builtin, Args& args) {
  const size_t given = args.positional.size();
  const std::string who(builtin.name);
  size_t i = 0;
  for (std::string_view rest = builtin.params; !rest.empty(); ++i) {
    std::string_view param = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), param.size() + 1));
    const bool optional = param.back() == '=';
    if (optional) param.remove_suffix(1);
    const bool by_place = param[0] == '/';
    if (by_place) param.remove_prefix(1);
    const auto named =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& n) { return n.first == param; });
    const bool has_name = !by_place && named != args.named.end();
    if (has_name && i < given) rt.fail(who + ": argument '" + std::string(param) + "' is given twice");
    if (!optional && !has_name && i >= given)
      rt.fail(who + ": argument '" + std::string(param) + "' is missing");
    args.given_.push_back(has_name || i < given);
    if (i >= given) args.positional.push_back(has_name ? std::move(named->second) : Value());
    if (has_name) args.named.erase(named);
  }
  if (given > i) rt.fail(who + ": too many arguments");
  if (!args.named.empty()) rt.fail(who + ": unexpected argument '" + args.named[0].first + "'");
}

Value apply(Runtime& rt, const Builtin& builtin, const Value& subject, Args args) {
  rt.budget.step();
  if (builtin.params != "*") bind(rt, builtin, args);
  return builtin.run(rt, subject, args);
}

Value* Namespace::find(std::string_view name) {
  for (auto& [key, value] : items)
    if (key == name) return &value;
  return nullptr;
}

const Builtin* find_filter(std::string_view name) {
  for (const auto& [rows, count] : {string_filters(), sequence_filters(), value_filters()})
    for (size_t i = 0; i < count; ++i)
      if (rows[i].name == name) return &rows[i];
  return nullptr;
}

}  // namespace octavo::jinja
