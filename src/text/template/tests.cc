// The tests of `is`.
#include <cmath>

#include "text/template/operations.h"
#include "text/template/print.h"
#include "text/template/split.h"

namespace octavo::jinja {
namespace {

template <bool (*kTest)(const Value&)>
Value simple(Runtime&, const Value& v, Args&) {
  return Value::boolean(kTest(v));
}

bool defined(const Value& v) { return !v.is_undefined(); }
bool undefined(const Value& v) { return v.is_undefined(); }
bool none(const Value& v) { return v.is_none(); }
bool boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return boolean(v) && v.boolean(); }
bool is_false(const Value& v) { return boolean(v) && !v.boolean(); }
bool integer(const Value& v) { return v.is(Kind::kInt) || v.is(Kind::kBigInt); }
bool floating(const Value& v) { return v.is(Kind::kFloat); }
bool number(const Value& v) { return v.is_numeric() || v.is(Kind::kBigInt); }
bool string(const Value& v) { return v.is_str(); }
bool mapping(const Value& v) { return v.is_dict(); }
bool iterable(const Value& v) {
  return v.is_str() || v.is_seq() || v.is_dict() || v.is_undefined() || v.is(Kind::kLoop);
}
bool sequence(const Value& v) {
  return v.is_str() || v.is_dict() || v.is_undefined() || (v.is_seq() && v.seq().type <= SeqType::kRange);
}
bool callable(const Value& v) { return v.is_callable() || (v.is(Kind::kLoop)); }
bool escaped(const Value& v) { return v.is_str() && v.str().markup; }

template <Op kOp>
Value comparison(Runtime& rt, const Value& v, Args& a) {
  return Value::boolean(compare(rt, kOp, v, a[0]));
}

Value remainder_is(Runtime& rt, const Value& v, const Value& divisor, int64_t wanted) {
  return Value::boolean(equals(rt.budget, binary(rt, Op::kMod, v, divisor), Value::integer(wanted)));
}
Value even(Runtime& rt, const Value& v, Args&) { return remainder_is(rt, v, Value::integer(2), 0); }
Value odd(Runtime& rt, const Value& v, Args&) { return remainder_is(rt, v, Value::integer(2), 1); }
Value divisibleby(Runtime& rt, const Value& v, Args& a) { return remainder_is(rt, v, a[0], 0); }

Value lower(Runtime& rt, const Value& v, Args&) { return is_lower(rt.str(to_text(rt, v))); }
Value upper(Runtime& rt, const Value& v, Args&) { return is_upper(rt.str(to_text(rt, v))); }

/// Python's `is`: small values by equality and type, the rest by identity.
Value sameas(Runtime& rt, const Value& v, Args& a) {
  if (v.kind() != a[0].kind()) return Value::boolean(false);
  if (v.identity() || a[0].identity())
    return Value::boolean(v.is_str() ? v.text() == a[0].text() : v.identity() == a[0].identity());
  return Value::boolean(equals(rt.budget, v, a[0]));
}

Value filter_exists(Runtime& rt, const Value& v, Args&) {
  return Value::boolean(v.is_str() && find_filter(v.text()));
}
Value test_exists(Runtime& rt, const Value& v, Args&) {
  return Value::boolean(v.is_str() && find_test(v.text()));
}

constexpr Builtin kTests[] = {
    {"defined", "", simple<defined>},
    {"undefined", "", simple<undefined>},
    {"none", "", simple<none>},
    {"boolean", "", simple<boolean>},
    {"true", "", simple<is_true>},
    {"false", "", simple<is_false>},
    {"integer", "", simple<integer>},
    {"float", "", simple<floating>},
    {"number", "", simple<number>},
    {"string", "", simple<string>},
    {"mapping", "", simple<mapping>},
    {"iterable", "", simple<iterable>},
    {"sequence", "", simple<sequence>},
    {"callable", "", simple<callable>},
    {"escaped", "", simple<escaped>},
    {"even", "", even},
    {"odd", "", odd},
    {"divisibleby", "num", divisibleby},
    {"lower", "", lower},
    {"upper", "", upper},
    {"sameas", "other", sameas},
    {"in", "seq", comparison<Op::kIn>},
    {"filter", "", filter_exists},
    {"test", "", test_exists},
    {"eq", "other", comparison<Op::kEq>},
    {"equalto", "other", comparison<Op::kEq>},
    {"==", "other", comparison<Op::kEq>},
    {"ne", "other", comparison<Op::kNe>},
    {"!=", "other", comparison<Op::kNe>},
    {"lt", "other", comparison<Op::kLt>},
    {"lessthan", "other", comparison<Op::kLt>},
    {"<", "other", comparison<Op::kLt>},
    {"le", "other", comparison<Op::kLe>},
    {"<=", "other", comparison<Op::kLe>},
    {"gt", "other", comparison<Op::kGt>},
    {"greaterthan", "other", comparison<Op::kGt>},
    {">", "other", comparison<Op::kGt>},
    {"ge", "other", comparison<Op::kGe>},
    {">=", "other", comparison<Op::kGe>},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : kTests)
    if (test.name == name) return &test;
  return nullptr;
}

}  // namespace octavo::jinja
