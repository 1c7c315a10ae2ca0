#include "text/template/operations.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/template/print.h"
#include "text/template/unicode.h"

namespace octavo::jinja {
namespace {

constexpr const char* kOpNames[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void unsupported(Runtime& rt, Op op, const Value& a, const Value& b) {
  need_defined(rt.budget, a);
  need_defined(rt.budget, b);
  if (op == Op::kAdd && (a.is_str() || a.is_seq()))
    rt.fail("can only concatenate " + type_name(a) + " (not \"" + type_name(b) + "\") to " + type_name(a));
  rt.fail(std::string("unsupported operand type(s) for ") + kOpNames[static_cast<int>(op)] + ": '" +
          type_name(a) + "' and '" + type_name(b) + "'");
}

Value power(Runtime& rt, int64_t base, int64_t exponent) {
  if (exponent < 0) return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  for (bool overflow = false; exponent > 0; exponent >>= 1) {
    if (exponent & 1) overflow = __builtin_mul_overflow(result, base, &result);
    if (exponent > 1) overflow |= __builtin_mul_overflow(base, base, &base);
    if (overflow) rt.fail("an integer is out of range");
  }
  return Value::integer(result);
}

Value integer_binary(Runtime& rt, Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  bool overflow = false;
  switch (op) {
    case Op::kAdd:
      overflow = __builtin_add_overflow(a, b, &out);
      break;
    case Op::kSub:
      overflow = __builtin_sub_overflow(a, b, &out);
      break;
    case Op::kMul:
      overflow = __builtin_mul_overflow(a, b, &out);
      break;
    case Op::kPow:
      if (a == 0 && b < 0) rt.fail("0.0 cannot be raised to a negative power");
      return power(rt, a, b);
    default:
      if (b == 0) rt.fail("division by zero");
      if (op == Op::kDiv) return Value::number(static_cast<double>(a) / static_cast<double>(b));
      if (b == -1) return op == Op::kMod ? Value::integer(0) : integer_binary(rt, Op::kSub, 0, a);
      // Python rounds down: the remainder has the sign of the divisor.
      const int64_t remainder = a % b + ((a % b != 0 && (a % b < 0) != (b < 0)) ? b : 0);
      out = op == Op::kMod ? remainder : (a - a % b) / b - ((a % b != 0 && (a % b < 0) != (b < 0)) ? 1 : 0);
  }
  if (overflow) rt.fail("an integer is out of range");
  return Value::integer(out);
}

Value float_binary(Runtime& rt, Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::number(a + b);
    case Op::kSub:
      return Value::number(a - b);
    case Op::kMul:
      return Value::number(a * b);
    case Op::kPow:
      if (a == 0 && b < 0) rt.fail("0.0 cannot be raised to a negative power");
      if (a < 0 && b != std::floor(b)) rt.fail("complex numbers are not supported");
      return Value::number(std::pow(a, b));
    default:
      if (b == 0) rt.fail("division by zero");
      if (op == Op::kDiv) return Value::number(a / b);
      double remainder = std::fmod(a, b);
      if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
      if (op == Op::kMod) return Value::number(remainder == 0 ? std::copysign(0.0, b) : remainder);
      return Value::number(std::round((a - remainder) / b));
  }
}

Value repeat(Runtime& rt, const Value& v, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (v.is_str()) {
    const std::string& text = v.text();
    if (!text.empty() && n > rt.budget.limits().output_bytes / text.size())
      rt.fail("the template makes too much text");
    rt.budget.step(n * text.size());
    std::string out;
    out.reserve(n * text.size());
    for (size_t i = 0; i < n; ++i) out += text;
    return rt.str(std::move(out), v.str().markup);
  }
  const auto& items = v.seq().items;
  if (!items.empty() && n > rt.budget.limits().memory_bytes / sizeof(Value) / items.size())
    rt.fail("the template takes too much memory");
  const Charge building(&rt.budget, n * items.size() * sizeof(Value));
  std::vector<Value> out;
  out.reserve(n * items.size());
  for (size_t i = 0; i < n; ++i) out.insert(out.end(), items.begin(), items.end());
  return rt.list(std::move(out), v.seq().type);
}

/// A str that is marked safe escapes what it is joined with.
Value joined(Runtime& rt, const Value& a, const Value& b) {
  rt.budget.check_text(a.text().size() + b.text().size());
  const bool markup = a.str().markup || b.str().markup;
  std::string out;
  out.reserve(a.text().size() + b.text().size());
  for (const Value* v : {&a, &b}) {
    if (markup && !v->str().markup)
      out += escape_html(v->text());
    else
      out += v->text();
  }
  return rt.str(std::move(out), markup);
}

bool is_repeatable(const Value& v) { return v.is_str() || (v.is_seq() && v.seq().type <= SeqType::kGroup); }

bool same_class(const Value& a, const Value& b) {
  return is_repeatable(a) && is_repeatable(b) && a.is_seq() && b.is_seq() &&
         (a.seq().type == SeqType::kList) == (b.seq().type == SeqType::kList);
}

}  // namespace

Value binary(Runtime& rt, Op op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_binary(rt, op, a.integer(), b.integer());
  if (a.is_numeric() && b.is_numeric()) return float_binary(rt, op, a.number(), b.number());
  if (op == Op::kAdd && a.is_str() && b.is_str()) return joined(rt, a, b);
  if (op == Op::kAdd && same_class(a, b)) {
    std::vector<Value> items;
    items.reserve(a.seq().items.size() + b.seq().items.size());
    items.insert(items.end(), a.seq().items.begin(), a.seq().items.end());
    items.insert(items.end(), b.seq().items.begin(), b.seq().items.end());
    return rt.list(std::move(items), a.seq().type == SeqType::kList ? SeqType::kList : SeqType::kTuple);
  }
  if (op == Op::kMul && is_repeatable(a) && b.is_integral()) return repeat(rt, a, b.integer());
  if (op == Op::kMul && a.is_integral() && is_repeatable(b)) return repeat(rt, b, a.integer());
  if (op == Op::kMod && a.is_str()) {
    need_defined(rt.budget, b);
    return rt.str(printf_text(rt, a.text(), b));
  }
  unsupported(rt, op, a, b);
}

bool compare(Runtime& rt, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::kEq:
      return equals(rt.budget, a, b);
    case Op::kNe:
      return !equals(rt.budget, a, b);
    case Op::kLt:
      return less(rt.budget, a, b);
    case Op::kGt:
      return less(rt.budget, b, a);
    // Not the negation of the opposite: NaN is in no order.
    case Op::kLe:
      return less(rt.budget, a, b) || equals(rt.budget, a, b);
    case Op::kGe:
      return less(rt.budget, b, a) || equals(rt.budget, a, b);
    default:
      return contains(rt, a, b) == (op == Op::kIn);
  }
}

Value negative(Runtime& rt, const Value& a) {
  if (a.is_integral()) return integer_binary(rt, Op::kSub, 0, a.integer());
  if (a.is(Kind::kFloat)) return Value::number(-a.number());
  need_defined(rt.budget, a);
  rt.fail("bad operand type for unary -: '" + type_name(a) + "'");
}

bool contains(Runtime& rt, const Value& item, const Value& container) {
  if (container.is_str()) {
    need_defined(rt.budget, item);
    if (!item.is_str()) rt.fail("'in <string>' requires string as left operand, not " + type_name(item));
    rt.budget.step(container.text().size());
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) {
    if (item.is_seq() || item.is_dict()) rt.fail("unhashable type: '" + type_name(item) + "'");
    return container.dict().find(item) != nullptr;
  }
  if (container.is(Kind::kNamespace) || !(container.is_seq() || container.is_undefined()))
    rt.fail("argument of type '" + type_name(container) + "' is not iterable");
  for (const Value& v : iterate(rt.budget, container))
    if (equals(rt.budget, v, item)) return true;
  return false;
}

int64_t length(Runtime& rt, const Value& v) {
  if (v.is_str()) return v.str().length;
  if (v.is_dict()) return static_cast<int64_t>(v.dict().items.size());
  if (v.is_undefined()) return 0;
  if (!v.is_seq() || v.seq().type == SeqType::kIterator)
    rt.fail("object of type '" + type_name(v) + "' has no len()");
  return static_cast<int64_t>(v.seq().items.size());
}

namespace {

Value no_attribute(Runtime& rt, const Value& object, const Value& name) {
  if (name.is_str())
    return rt.undefined("'" + type_name(object) + " object' has no attribute '" + name.text() + "'");
  return rt.undefined(type_name(object) + " object has no element " + repr(rt, name));
}

Value method_of(Runtime& rt, const Value& object, const Value& name) {
  if (const Builtin* method = find_method(object, name.text()))
    return Value::object(Kind::kMethod, std::make_shared<BoundMethod>(BoundMethod{object, method}));
  if (is_mutating_method(object, name.text()))
    return rt.undefined("access to attribute '" + name.text() + "' of '" + type_name(object) + "' is unsafe");
  if (object.is_seq(SeqType::kGroup) && (name.text() == "grouper" || name.text() == "list"))
    return object.seq().items[name.text() == "grouper" ? 0 : 1];
  return Value();
}

/// A key, place or attribute of plain data; null-like (no message) if absent.
Value element(Runtime& rt, const Value& object, const Value& index) {
  if (object.is_dict()) {
    const Value* found = object.dict().find(index);
    return found ? *found : Value();
  }
  if (object.is(Kind::kLoop) && index.is_str()) return loop_attribute(rt, object.as<Loop>(), index.text());
  if (object.is(Kind::kCycler) && index.is_str() && index.text() == "current") {
    const auto& cycler = object.as<Cycler>();
    return cycler.items[cycler.next];
  }
  if (object.is(Kind::kNamespace) && index.is_str()) {
    const Value* found = object.as<Namespace>().find(index.text());
    return found ? *found : Value();
  }
  if (!index.is_integral()) return Value();
  int64_t i = index.integer();
  if (object.is_str()) {
    const Str& s = object.str();
    i += i < 0 ? s.length : 0;
    if (i < 0 || i >= s.length) return Value();
    if (!s.ascii()) rt.budget.step(s.text.size());
    const size_t at = s.ascii() ? static_cast<size_t>(i) : byte_offset(s.text, i);
    return rt.str(s.text.substr(at, char_bytes(s.text, at)));
  }
  if (!object.is_seq() || object.seq().type > SeqType::kRange) return Value();
  const auto n = static_cast<int64_t>(object.seq().items.size());
  i += i < 0 ? n : 0;
  return i < 0 || i >= n ? Value() : object.seq().items[static_cast<size_t>(i)];
}

/// An undefined value of the template itself has a message; "there is none" has not.
bool found(const Value& v) { return !v.is_undefined() || v.identity(); }

}  // namespace

Value get_attribute(Runtime& rt, const Value& object, const Value& name) {
  need_defined(rt.budget, object);
  Value v = method_of(rt, object, name);
  if (!found(v)) v = element(rt, object, name);
  return found(v) ? v : no_attribute(rt, object, name);
}

Value get_item(Runtime& rt, const Value& object, const Value& index) {
  need_defined(rt.budget, object);
  Value v = element(rt, object, index);
  if (!found(v) && index.is_str()) v = method_of(rt, object, index);
  return found(v) ? v : no_attribute(rt, object, index);
}

namespace {

struct Slice {
  int64_t start, step, count;
};

/// Python's rules for slice bounds over `n` elements.
Slice resolve_slice(Runtime& rt, int64_t n, const Value& start, const Value& stop, const Value& step) {
  const auto absent = [&](const Value& v) {
    if (v.is_none() || v.is_undefined()) return true;
    if (!v.is_integral()) rt.fail("slice indices must be integers or None");
    return false;
  };
  const auto bound = [&](const Value& v, int64_t otherwise, int64_t low, int64_t high) {
    if (absent(v)) return otherwise;
    return std::clamp(v.integer() < 0 && v.integer() >= -n ? v.integer() + n : v.integer(), low, high);
  };
  const int64_t by = absent(step) ? 1 : std::clamp<int64_t>(step.integer(), -INT32_MAX, INT32_MAX);
  if (by == 0) rt.fail("slice step cannot be zero");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? n - 1 : n;
  const int64_t first = bound(start, by < 0 ? high : low, low, high);
  const int64_t last = bound(stop, by < 0 ? low : high, low, high);
  const int64_t span = by < 0 ? first - last : last - first;
  return {first, by, span <= 0 ? 0 : (span + std::abs(by) - 1) / std::abs(by)};
}

Value slice_str(Runtime& rt, const Str& s, const Slice& slice) {
  if (slice.count == 0) return rt.str("");
  rt.budget.step(s.text.size());
  const std::vector<size_t> offsets = s.ascii() ? std::vector<size_t>() : char_offsets(s.text);
  const auto offset = [&](int64_t i) {
    return s.ascii() ? static_cast<size_t>(i) : offsets[static_cast<size_t>(i)];
  };
  if (slice.step == 1) {
    const size_t begin = offset(slice.start);
    return rt.str(s.text.substr(begin, offset(slice.start + slice.count) - begin));
  }
  std::string out;
  for (int64_t k = 0, i = slice.start; k < slice.count; ++k, i += slice.step)
    out.append(s.text, offset(i), offset(i + 1) - offset(i));
  return rt.str(std::move(out));
}

}  // namespace

Value get_slice(Runtime& rt, const Value& object, const Value& start, const Value& stop, const Value& step) {
  need_defined(rt.budget, object);
  if (object.is_dict()) rt.fail("unhashable type: 'slice'");
  const bool ok = object.is_str() || (object.is_seq() && object.seq().type <= SeqType::kRange);
  if (!ok) return rt.undefined("'" + type_name(object) + " object' cannot be sliced");
  const Slice slice = resolve_slice(rt, length(rt, object), start, stop, step);
  if (object.is_str()) return slice_str(rt, object.str(), slice);
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(slice.count));
  for (int64_t k = 0, i = slice.start; k < slice.count; ++k, i += slice.step)
    items.push_back(object.seq().items[static_cast<size_t>(i)]);
  return rt.list(std::move(items),
                 object.seq().type == SeqType::kGroup ? SeqType::kTuple : object.seq().type);
}

Value get_path(Runtime& rt, const Value& object, const Value& path) {
  if (path.is_integral()) return get_item(rt, object, path);
  if (!path.is_str()) rt.fail("an attribute must be a name or a number");
  Value v = object;
  const std::string& text = path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    int64_t index = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool number = !part.empty() && part[0] != '-' && parsed.ec == std::errc() &&
                        parsed.ptr == part.data() + part.size();
    v = get_item(rt, v, number ? Value::integer(index) : rt.str(part));
    begin = end + 1;
  }
  return v;
}

}  // namespace octavo::jinja
