// Operators and access with Python's semantics.
#pragma once

#include <string_view>

#include "text/template/ast.h"
#include "text/template/builtin.h"

namespace octavo::jinja {

Value binary(Runtime& rt, Op op, const Value& a, const Value& b);
bool compare(Runtime& rt, Op op, const Value& a, const Value& b);
Value negative(Runtime& rt, const Value& a);
bool contains(Runtime& rt, const Value& item, const Value& container);

/// object.name: methods first, then keys. object[index]: keys and places first, then methods.
/// Undefined if there is neither; fails on an undefined object.
Value get_attribute(Runtime& rt, const Value& object, const Value& name);
Value get_item(Runtime& rt, const Value& object, const Value& index);
/// Bounds are undefined-kind Values where absent.
Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step);

int64_t length(Runtime& rt, const Value& v);

/// The attribute argument of map, selectattr, sort, ...: a dotted path of names and places.
Value get_path(Runtime& rt, const Value& object, const Value& path);

}  // namespace octavo::jinja
