#include "exporters/symbolic/sym_node.h"

#include "exporters/support/error.h"
#include "exporters/symbolic/float_value.h"

#include <algorithm>
#include <cmath>

namespace exporters {
namespace {

using c10::SymNode;
using Nodes = c10::ArrayRef<SymNode>;
using EnvPtr = std::shared_ptr<ShapeEnv>;

class SizeNode final : public c10::SymNodeImpl {
 public:
  enum class Kind { kInt, kBool, kFloat };

  SizeNode(Expr expr, EnvPtr env) : kind_(Kind::kInt), env_(std::move(env)), expr_(std::move(expr)) {}
  SizeNode(BoolExpr condition, EnvPtr env)
      : kind_(Kind::kBool), env_(std::move(env)), condition_(std::move(condition)) {}
  SizeNode(FloatValue value, EnvPtr env)
      : kind_(Kind::kFloat), env_(std::move(env)), float_(std::make_unique<FloatValue>(std::move(value))) {}

  const Expr& expr() const { return expr_; }
  const BoolExpr& condition() const { return condition_; }
  const FloatValue& float_value() const { return *float_; }

  bool is_int() override { return kind_ == Kind::kInt; }
  bool is_bool() override { return kind_ == Kind::kBool; }
  bool is_float() override { return kind_ == Kind::kFloat; }

  // ── Arithmetic ──

  SymNode add(const SymNode& other) override {
    return both_ints(other) ? node(int_value() + int_of(other)) : node(exporters::add(as_float(), float_of(other)));
  }
  SymNode sub(const SymNode& other) override {
    return both_ints(other) ? node(int_value() - int_of(other))
                            : node(exporters::add(as_float(), negate(float_of(other))));
  }
  SymNode mul(const SymNode& other) override {
    return both_ints(other) ? node(int_value() * int_of(other)) : node(multiply(as_float(), float_of(other)));
  }
  SymNode truediv(const SymNode& other) override {
    return both_ints(other) ? node(FloatValue::ratio(simple(int_value()), simple(int_of(other)), *env_))
                            : node(divide(as_float(), float_of(other)));
  }
  SymNode floordiv(const SymNode& other) override {
    if (both_ints(other)) {
      return node(exporters::floordiv(int_value(), int_of(other)));
    }
    return node(divide(as_float(), float_of(other)))->floor()->sym_float();
  }
  SymNode mod(const SymNode& other) override {
    if (!both_ints(other)) {
      fail("modulo of a symbolic float ({}) is not supported", str());
    }
    return node(exporters::mod(int_value(), int_of(other)));
  }
  SymNode pow(const SymNode& other) override {
    if (both_ints(other)) {
      const int64_t exponent = env_->specialize(int_of(other));
      if (exponent >= 0) {
        return node(exporters::pow(int_value(), exponent));
      }
    }
    const FloatValue base = as_float();
    const FloatValue exponent = float_of(other);
    return node(opaque("FloatPow(" + base.text + ", " + exponent.text + ")", {base, exponent},
                       [](double x, double y) { return std::pow(x, y); }));
  }
  SymNode neg() override { return is_int() ? node(-expr_) : node(negate(as_float())); }
  SymNode sym_min(const SymNode& other) override {
    return both_ints(other) ? node(exporters::min(int_value(), int_of(other)))
                            : float_extremum("Min", other, [](double x, double y) { return std::min(x, y); });
  }
  SymNode sym_max(const SymNode& other) override {
    return both_ints(other) ? node(exporters::max(int_value(), int_of(other)))
                            : float_extremum("Max", other, [](double x, double y) { return std::max(x, y); });
  }
  SymNode floor() override { return is_int() ? clone() : rounded(exporters::floor(*float_, *env_), std::floor); }
  SymNode ceil() override { return is_int() ? clone() : rounded(exporters::ceil(*float_, *env_), std::ceil); }
  SymNode sym_float() override { return is_float() ? clone() : node(as_float()); }

  // ── Comparison ──

  SymNode eq(const SymNode& other) override {
    if (is_bool()) {
      const BoolExpr b = bool_of(other);
      return node((condition_ && b) || (!condition_ && !b));
    }
    return both_ints(other) ? node(exporters::eq(int_value(), int_of(other)))
                            : node(float_at_most(other) && float_at_least(other));
  }
  SymNode ne(const SymNode& other) override { return eq(other)->sym_not(); }
  SymNode le(const SymNode& other) override {
    return both_ints(other) ? node(exporters::le(int_value(), int_of(other))) : node(float_at_most(other));
  }
  SymNode ge(const SymNode& other) override {
    return both_ints(other) ? node(exporters::ge(int_value(), int_of(other))) : node(float_at_least(other));
  }
  SymNode gt(const SymNode& other) override { return le(other)->sym_not(); }
  SymNode lt(const SymNode& other) override { return ge(other)->sym_not(); }

  // ── Logic ──

  SymNode sym_and(const SymNode& other) override { return node(bool_value() && bool_of(other)); }
  SymNode sym_or(const SymNode& other) override { return node(bool_value() || bool_of(other)); }
  SymNode sym_not() override { return node(!bool_value()); }
  SymNode sym_ite(const SymNode& then_value, const SymNode& else_value) override {
    if (auto decided = env_->statically(bool_value())) {
      return *decided ? then_value : else_value;
    }
    if (then_value->is_int() && else_value->is_int()) {
      const Expr otherwise = int_of(else_value);
      return node(otherwise + (int_of(then_value) - otherwise) * indicator(condition_));
    }
    if (then_value->is_bool() && else_value->is_bool()) {
      return node((condition_ && bool_of(then_value)) || (!condition_ && bool_of(else_value)));
    }
    return env_->evaluate(condition_) ? then_value : else_value;
  }

  // ── Memory formats, from facts alone ──

  SymNode is_contiguous(Nodes sizes, Nodes strides) override {
    std::vector<size_t> order(sizes.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = order.size() - 1 - i;
    }
    return wrap_bool(is_dense_in_order(sizes, strides, order));
  }
  SymNode is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 4 && is_dense_in_order(sizes, strides, {1, 3, 2, 0}));
  }
  SymNode is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 5 && is_dense_in_order(sizes, strides, {1, 4, 3, 2, 0}));
  }
  SymNode is_channels_last_strides_2d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 4 && has_ascending_strides(sizes, strides, {1, 3, 2, 0}));
  }
  SymNode is_channels_last_strides_3d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 5 && has_ascending_strides(sizes, strides, {1, 4, 3, 2, 0}));
  }
  SymNode is_non_overlapping_and_dense(Nodes sizes, Nodes strides) override {
    return wrap_bool(is_dense_in_some_order(sizes, strides));
  }

  // ── Plain values ──

  SymNode clone() override { return is_int() ? node(expr_) : is_bool() ? node(condition_) : node(FloatValue(*float_)); }
  SymNode wrap_int(int64_t value) override { return node(Expr(value)); }
  SymNode wrap_float(double value) override { return node(FloatValue::constant(value)); }
  SymNode wrap_bool(bool value) override { return node(BoolExpr(value)); }

  int64_t guard_int(const char*, int64_t) override { return env_->specialize(int_value()); }
  bool guard_bool(const char*, int64_t) override { return env_->evaluate(bool_value()); }
  double guard_float(const char*, int64_t) override {
    const FloatValue value = as_float();
    for (const Expr& input : value.inputs) {
      env_->specialize(input);
    }
    ensure(value.sample.has_value(), "the float {} is data-dependent: it has no value while tracing", value.text);
    return *value.sample;
  }
  bool guard_size_oblivious(const char*, int64_t) override { return fact_or(false); }
  bool guard_or_false(const char*, int64_t) override { return fact_or(false); }
  bool guard_or_true(const char*, int64_t) override { return fact_or(true); }
  bool statically_known_true(const char*, int64_t) override { return fact_or(false); }
  bool expect_true(const char*, int64_t) override {
    // Where the samples say no, the caller has the better message.
    if (auto known = env_->statically(bool_value())) {
      return *known;
    }
    if (has_samples(condition_) && !env_->evaluate(condition_)) {
      return false;
    }
    env_->require(condition_);
    return true;
  }
  int64_t int_() override { return guard_int(nullptr, 0); }
  bool bool_() override { return guard_bool(nullptr, 0); }

  // Note [Hints of sizes]
  // libtorch asks a size for its hint in one place, where an assignment through an index (`y.index_put_({Slice(), i},
  // v)`) strips leading ones off v's shape: what has no hint stays, since it broadcasts alike. A yes would be followed
  // by the question whether the size is 1, and its answer would be a guard that the program does not need.
  bool has_hint() override {
    if (is_float()) {
      return float_->sample.has_value();
    }
    return is_int() ? constant_int().has_value() : has_samples(condition_);
  }
  std::string str() override {
    return is_int() ? simple(expr_).str() : is_bool() ? env_->simplify(condition_).str() : float_->text;
  }
  std::optional<int64_t> constant_int() override { return is_int() ? simple(expr_).as_int() : std::nullopt; }
  std::optional<bool> constant_bool() override { return is_bool() ? env_->statically(condition_) : std::nullopt; }
  std::optional<int64_t> maybe_as_int() override { return constant_int(); }
  bool is_constant() override { return !is_symbolic(); }
  bool is_symbolic() override {
    return is_int() ? !constant_int() : is_bool() ? !constant_bool() : !float_->as_constant();
  }

 private:
  SymNode node(const Expr& e) const { return c10::make_intrusive<SizeNode>(env_->simplify(e), env_); }
  SymNode node(const BoolExpr& e) const { return c10::make_intrusive<SizeNode>(e, env_); }
  SymNode node(FloatValue e) const { return c10::make_intrusive<SizeNode>(std::move(e), env_); }

  Expr simple(const Expr& e) const { return env_->simplify(e); }
  bool has_samples(const BoolExpr& condition) const {
    const std::vector<Symbol> symbols = condition.free_symbols();
    return std::all_of(symbols.begin(), symbols.end(), [this](Symbol s) { return env_->hint(Expr(s)).has_value(); });
  }

  bool both_ints(const SymNode& other) { return is_int() && other->is_int(); }
  bool fact_or(bool otherwise) { return env_->statically(bool_value()).value_or(otherwise); }

  const Expr& int_value() {
    if (!is_int()) {
      fail("an integer was asked of the symbolic {} {}", is_bool() ? "bool" : "float", str());
    }
    return expr_;
  }
  const BoolExpr& bool_value() {
    if (!is_bool()) {
      fail("a bool was asked of the symbolic number {}", str());
    }
    return condition_;
  }
  FloatValue as_float() { return is_float() ? *float_ : FloatValue::ratio(simple(int_value()), 1, *env_); }

  // Operands may be c10's own constants, which know only their value.
  static Expr int_of(const SymNode& other) {
    if (const auto* ours = dynamic_cast<const SizeNode*>(other.get())) {
      return ours->expr_;
    }
    const auto value = other->is_int() ? other->constant_int() : std::nullopt;
    if (!value) {
      fail("symbolic number {} comes from elsewhere and cannot be combined with ours", other->str());
    }
    return *value;
  }
  static BoolExpr bool_of(const SymNode& other) {
    if (auto* ours = dynamic_cast<SizeNode*>(other.get())) {
      return ours->bool_value();
    }
    const auto value = other->is_bool() ? other->constant_bool() : std::nullopt;
    if (!value) {
      fail("symbolic bool {} comes from elsewhere and cannot be combined with ours", other->str());
    }
    return *value;
  }
  FloatValue float_of(const SymNode& other) {
    if (auto* ours = dynamic_cast<SizeNode*>(other.get())) {
      return ours->as_float();
    }
    return FloatValue::ratio(int_of(other), 1, *env_);
  }

  SymNode float_extremum(const char* name, const SymNode& other, double (*function)(double, double)) {
    const FloatValue a = as_float();
    const FloatValue b = float_of(other);
    return node(opaque(std::string(name) + "(" + a.text + ", " + b.text + ")", {a, b}, function));
  }

  SymNode rounded(const std::optional<Expr>& symbolic, double (*function)(double)) {
    if (symbolic) {
      return node(*symbolic);
    }
    const double value = function(guard_float(nullptr, 0));
    if (std::abs(value) >= 9e18) {
      fail("{} does not fit in a 64-bit integer", str());
    }
    return node(Expr(static_cast<int64_t>(value)));
  }

  BoolExpr float_at_most(const SymNode& other) { return compare_floats(other, at_most, exporters::le); }
  BoolExpr float_at_least(const SymNode& other) { return compare_floats(other, at_least, exporters::ge); }

  // As a condition on sizes where there is one, else on the values with the sizes made static.
  BoolExpr compare_floats(const SymNode& other, std::optional<BoolExpr> (*against)(const FloatValue&, double),
                          BoolExpr (*compare)(const Expr&, const Expr&)) {
    const FloatValue a = as_float();
    const FloatValue b = float_of(other);
    if (auto limit = b.as_constant()) {
      if (auto condition = against(a, *limit)) {
        return *condition;
      }
    }
    if (a.affine && b.affine && a.scale == b.scale && a.scale > 0 && a.denominator == Expr(1) &&
        b.denominator == Expr(1)) {
      return compare(a.numerator, b.numerator);
    }
    const double x = guard_float(nullptr, 0);
    const double y = node(b)->guard_float(nullptr, 0);
    return compare(x < y ? 0 : 1, x > y ? 0 : 1);
  }

  // 1 where the condition holds, else 0.
  static Expr indicator(const BoolExpr& condition) {
    switch (condition.kind()) {
      case BoolExpr::Kind::kTrue:
        return 1;
      case BoolExpr::Kind::kFalse:
        return 0;
      case BoolExpr::Kind::kLe:
        return exporters::min(1, exporters::max(0, Expr(1) - condition.operand()));
      case BoolExpr::Kind::kNe:
        return exporters::min(1, exporters::max(condition.operand(), -condition.operand()));
      case BoolExpr::Kind::kAnd: {
        Expr product = 1;
        for (const BoolExpr& part : condition.operands()) {
          product = product * indicator(part);
        }
        return product;
      }
      default:
        return Expr(1) - indicator(!condition);
    }
  }

  bool known_equal(const Expr& a, const Expr& b) const { return env_->is_true(exporters::eq(a, b)); }

  bool is_empty(Nodes sizes) const {
    return std::any_of(sizes.begin(), sizes.end(), [this](const SymNode& s) { return known_equal(int_of(s), 0); });
  }

  bool is_dense_in_order(Nodes sizes, Nodes strides, const std::vector<size_t>& order) const {
    if (is_empty(sizes)) {
      return true;
    }
    Expr expected = 1;
    for (size_t axis : order) {
      const Expr size = int_of(sizes[axis]);
      if (known_equal(size, 1)) {
        continue;
      }
      if (!known_equal(int_of(strides[axis]), expected)) {
        return false;
      }
      expected = expected * size;
    }
    return true;
  }

  bool is_dense_in_some_order(Nodes sizes, Nodes strides) const {
    std::vector<size_t> left;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!known_equal(int_of(sizes[i]), 1)) {
        left.push_back(i);
      }
    }
    if (is_empty(sizes)) {
      return true;
    }
    for (Expr expected = 1; !left.empty();) {
      const auto next = std::find_if(left.begin(), left.end(),
                                     [&](size_t axis) { return known_equal(int_of(strides[axis]), expected); });
      if (next == left.end()) {
        return false;
      }
      expected = expected * int_of(sizes[*next]);
      left.erase(next);
    }
    return true;
  }

  // The rules of c10/core/MemoryFormat.h for channels-last-like strides.
  bool has_ascending_strides(Nodes sizes, Nodes strides, const std::vector<size_t>& order) const {
    Expr least = 0;
    if (!env_->is_true(exporters::ne(int_of(strides[1]), 0))) {
      return false;
    }
    for (size_t axis : order) {
      const Expr size = int_of(sizes[axis]);
      const Expr stride = int_of(strides[axis]);
      if (known_equal(size, 0) || !env_->is_true(exporters::ge(stride, least))) {
        return false;
      }
      if (axis == 0 && known_equal(least, int_of(strides[1]))) {
        return false;
      }
      least = stride * size;
    }
    return true;
  }

  Kind kind_;
  EnvPtr env_;
  Expr expr_;
  BoolExpr condition_;
  std::unique_ptr<FloatValue> float_;
};

const SizeNode& our_node(c10::SymNodeImpl* node) {
  const auto* ours = dynamic_cast<const SizeNode*>(node);
  if (!ours) {
    throw Error(fmt::format("symbolic number {} was not made by this library", node->str()), current_place().str());
  }
  return *ours;
}

}  // namespace

c10::SymInt to_sym_int(const Expr& expr, const std::shared_ptr<ShapeEnv>& env) {
  const Expr simple = env->simplify(expr);
  if (auto value = simple.as_int()) {
    return *value;
  }
  return c10::SymInt(c10::SymNode(c10::make_intrusive<SizeNode>(simple, env)));
}

c10::SymBool to_sym_bool(const BoolExpr& condition, const std::shared_ptr<ShapeEnv>& env) {
  const BoolExpr simple = env->simplify(condition);
  if (auto value = simple.as_bool()) {
    return *value;
  }
  return c10::SymBool(c10::SymNode(c10::make_intrusive<SizeNode>(simple, env)));
}

Expr to_expr(const c10::SymInt& value) {
  if (auto plain = value.maybe_as_int()) {
    return *plain;
  }
  return our_node(value.toSymNodeImplUnowned()).expr();
}

BoolExpr to_bool_expr(const c10::SymBool& value) {
  if (auto plain = value.maybe_as_bool()) {
    return *plain;
  }
  return our_node(value.toSymNodeImplUnowned()).condition();
}

std::optional<FloatExpr> to_float_expr(const c10::SymFloat& value) {
  if (!value.is_symbolic()) {
    const FloatValue plain = FloatValue::constant(value.as_float_unchecked());
    return FloatExpr{plain.numerator, plain.denominator, plain.scale, true, plain.text};
  }
  const auto* ours = dynamic_cast<const SizeNode*>(value.toSymNodeImplUnowned());
  if (!ours) {
    return std::nullopt;
  }
  const FloatValue& f = ours->float_value();
  return FloatExpr{f.numerator, f.denominator, f.scale, f.affine, f.text};
}

}  // namespace exporters
