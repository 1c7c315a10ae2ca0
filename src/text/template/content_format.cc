#include "text/template/content_format.h"

#include <map>
#include <set>

#include "text/template/builtin.h"

namespace octavo::jinja {
namespace {

/// Names that stand for the messages, one message, or a message's content. Scopes are ignored: a name that
/// means the content anywhere counts everywhere, which errs towards "parts", and templates name things
/// consistently.
class Analysis {
 public:
  explicit Analysis(const Ast& ast) : ast_(ast) { messages_.insert("messages"); }

  bool run() {
    // Until no more names are found: a variable may be set after the macro that reads it.
    for (size_t known = 0; known != size();) {
      known = size();
      walk(ast_.body);
    }
    return loops_;
  }

 private:
  size_t size() const { return messages_.size() + message_.size() + content_.size(); }

  void walk(const Body& body) {
    for (const auto& s : body) {
      visit(*s);
      for (const auto& e : s->exprs)
        if (e) walk(*e);
      for (const auto& inner : s->bodies) walk(inner);
      if (s->macro) walk(s->macro->body);
    }
  }

  void walk(const Expr& e) {
    if (e.kind == ExprKind::kCall) visit_call(e);
    for (const auto& kid : e.kids)
      if (kid) walk(*kid);
    for (const auto& kid : e.named) walk(*kid.second);
  }

  void visit(const Stmt& s) {
    if (s.kind == StmtKind::kMacro) macros_[s.macro->name] = s.macro.get();
    if (s.kind == StmtKind::kFor) {
      const Expr& over = *s.exprs[1];
      if (stands_for(over, messages_) && s.exprs[0]->kind == ExprKind::kName)
        message_.insert(s.exprs[0]->text);
      loops_ |= is_content(over);
    }
    if (s.kind == StmtKind::kSet && s.exprs[0]->kind == ExprKind::kName) {
      const std::string& name = s.exprs[0]->text;
      if (stands_for(*s.exprs[1], messages_)) messages_.insert(name);
      if (stands_for(*s.exprs[1], message_) || is_message(*s.exprs[1])) message_.insert(name);
      if (is_content(*s.exprs[1])) content_.insert(name);
    }
  }

  void visit_call(const Expr& e) {
    if (e.kids[0]->kind != ExprKind::kName) return;
    const auto macro = macros_.find(e.kids[0]->text);
    if (macro == macros_.end()) return;
    const auto& parameters = macro->second->parameter_names;
    for (size_t i = 1; i < e.kids.size() && i <= parameters.size(); ++i) pass(*e.kids[i], parameters[i - 1]);
    for (const auto& [name, value] : e.named) pass(*value, name);
  }

  void pass(const Expr& value, const std::string& parameter) {
    if (is_content(value)) content_.insert(parameter);
    if (is_message(value)) message_.insert(parameter);
    if (stands_for(value, messages_)) messages_.insert(parameter);
  }

  /// The name itself, a slice of it, or it through filters.
  static bool stands_for(const Expr& e, const std::set<std::string>& names) {
    if (e.kind == ExprKind::kName) return names.count(e.text) != 0;
    const bool through =
        e.kind == ExprKind::kFilter || (e.kind == ExprKind::kItem && e.kids[1]->kind == ExprKind::kSlice);
    return through && e.kids[0] && keeps_elements(e) && stands_for(*e.kids[0], names);
  }

  static bool keeps_elements(const Expr& e) {
    if (e.kind != ExprKind::kFilter) return true;
    for (const std::string_view filter :
         {"list", "reverse", "select", "reject", "selectattr", "rejectattr", "default", "d"})
      if (e.builtin->name == filter) return true;
    return false;
  }

  /// messages[i], or a name for one.
  bool is_message(const Expr& e) const {
    if (e.kind == ExprKind::kItem && e.kids[1]->kind != ExprKind::kSlice)
      return stands_for(*e.kids[0], messages_);
    if (e.kind == ExprKind::kFilter && (e.builtin->name == "first" || e.builtin->name == "last"))
      return e.kids[0] && stands_for(*e.kids[0], messages_);
    return stands_for(e, message_);
  }

  bool is_content(const Expr& e) const {
    if (stands_for(e, content_)) return true;
    if (e.kind == ExprKind::kFilter) return e.kids[0] && keeps_elements(e) && is_content(*e.kids[0]);
    if (e.kind == ExprKind::kItem && e.kids[1]->kind == ExprKind::kSlice) return is_content(*e.kids[0]);
    const bool attribute = e.kind == ExprKind::kAttribute && e.text == "content";
    const bool item = e.kind == ExprKind::kItem && e.kids[1]->kind == ExprKind::kConst &&
                      e.kids[1]->constant.is_str() && e.kids[1]->constant.text() == "content";
    return (attribute || item) && is_message(*e.kids[0]);
  }

  const Ast& ast_;
  std::set<std::string> messages_, message_, content_;
  std::map<std::string, const MacroDef*> macros_;
  bool loops_ = false;
};

}  // namespace

bool loops_over_content(const Ast& ast) { return Analysis(ast).run(); }

}  // namespace octavo::jinja
