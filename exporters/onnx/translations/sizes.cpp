#include "exporters/onnx/translations/context.h"
#include "exporters/support/error.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace exporters::onnx {
namespace {

constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

std::vector<int64_t> range_to(int64_t n) {
  std::vector<int64_t> axes(static_cast<size_t>(n));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

// ── Facts ──

bool TranslationContext::at_least(const Expr& expr, int64_t bound) {
  const auto number = expr.as_int();
  return number ? *number >= bound : env_->is_true(ge(expr, bound));
}

bool TranslationContext::same(const Sizes& a, const Sizes& b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void TranslationContext::declare_sizes(const OnnxValue& value, const Sizes& sizes) {
  sizes_.emplace(value.name, sizes);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (!sizes[axis].is_int()) {
      axes_.emplace(sizes[axis], Axis{value, static_cast<int64_t>(axis)});
    }
  }
}

const Sizes* TranslationContext::sizes_of(const OnnxValue& value) const {
  const auto found = sizes_.find(value.name);
  return found == sizes_.end() ? nullptr : &found->second;
}

void TranslationContext::declare_symbol(Symbol symbol, const OnnxValue& scalar) {
  symbols_.emplace(symbol, reshape(cast(scalar, c10::kLong), {}, {1}));
}

void TranslationContext::redeclare_symbol(Symbol symbol, const OnnxValue& scalar) {
  size_values_.clear();  // what was computed of the former value; equal nodes are found again
  symbols_.erase(symbol);
  declare_symbol(symbol, scalar);
}

const TranslationContext::Axis* TranslationContext::find_axis(const Expr& expr) const {
  const auto found = axes_.find(expr);
  return found == axes_.end() ? nullptr : &found->second;
}

// Whether each symbol of it is the size of an axis.
bool TranslationContext::tells_symbols(const Expr& expr) const {
  const std::vector<Symbol> symbols = expr.free_symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return axes_.contains(Expr(symbol)); });
}

// The size of an axis that is `part` and something that other axes tell; null where there is none. The smallest
// expression, for stable output.
const Expr* TranslationContext::sum_with(const Expr& part) const {
  const Expr* best = nullptr;
  for (const auto& [size, axis] : axes_) {
    const Expr rest = size - part;
    const bool is_told = axes_.contains(rest) || tells_symbols(rest);
    if (is_told && (best == nullptr || Expr::compare(size, *best) < 0)) {
      best = &size;
    }
  }
  return best;
}

void TranslationContext::avoid_axis(const OnnxValue& value, int64_t axis) {
  const Sizes* sizes = sizes_of(value);
  ensure(sizes != nullptr, "the sizes of '{}' are not known", value.name);
  const Expr size = sizes->at(static_cast<size_t>(axis));
  const auto own = axes_.find(size);
  if (own == axes_.end() || own->second.tensor.name != value.name || own->second.axis != axis) {
    return;  // another axis tells it, or it is a number
  }
  const Axis kept = own->second;
  axes_.erase(own);
  const auto symbol = size.as_symbol();
  if (const Expr* sum = symbol ? sum_with(size) : nullptr) {
    const Expr whole = *sum;
    symbols_.emplace(*symbol, emit("Sub", {this->size(whole), this->size(whole - size)}));
  } else if (symbol || !tells_symbols(size)) {
    axes_.emplace(size, kept);
  }
}

// ── Sizes as values ──

OnnxValue TranslationContext::size(const Expr& expr) {
  if (const auto number = expr.as_int()) {
    return constant(std::vector<int64_t>{*number});
  }
  const auto known = size_values_.find(expr);
  if (known != size_values_.end()) {
    return known->second;
  }
  OnnxValue result;
  if (const Axis* axis = find_axis(expr)) {
    result = emit("Shape", {axis->tensor}, {{"start", axis->axis}, {"end", axis->axis + 1}});
  } else {
    result = size_sum(expr);
  }
  size_values_.emplace(expr, result);
  sizes_.emplace(result.name, Sizes{1});
  return result;
}

OnnxValue TranslationContext::size_scalar(const Expr& expr) {
  if (const auto number = expr.as_int()) {
    return constant(*number);
  }
  return squeeze(size(expr), {0});
}

OnnxValue TranslationContext::size_sum(const Expr& expr) {
  OnnxValue sum;
  for (const Expr::Term& term : expr.terms()) {
    const OnnxValue value = size_term(term);
    sum = sum.present() ? emit("Add", {sum, value}) : value;
  }
  return sum;
}

OnnxValue TranslationContext::size_term(const Expr::Term& term) {
  OnnxValue product;
  for (const Expr::Factor& factor : term.factors) {
    const OnnxValue value = size_atom(factor.atom);
    for (int64_t i = 0; i < factor.power; ++i) {
      product = product.present() ? emit("Mul", {product, value}) : value;
    }
  }
  if (!product.present()) {
    return constant(std::vector<int64_t>{term.coefficient});
  }
  return term.coefficient == 1 ? product : emit("Mul", {product, constant(std::vector<int64_t>{term.coefficient})});
}

OnnxValue TranslationContext::size_atom(const Expr::Atom& atom) {
  switch (atom.kind) {
    case Expr::AtomKind::kSymbol:
      return size_symbol(*atom.symbol);
    case Expr::AtomKind::kFloorDiv:
      return floor_divide(atom.operands.at(0), atom.operands.at(1));
    case Expr::AtomKind::kMod:
      return emit("Mod", {size(atom.operands.at(0)), size(atom.operands.at(1))});
    case Expr::AtomKind::kMin:
    case Expr::AtomKind::kMax: {
      OnnxValues operands;
      for (const Expr& operand : atom.operands) {
        operands.push_back(size(operand));
      }
      return emit(atom.kind == Expr::AtomKind::kMin ? "Min" : "Max", operands);
    }
    case Expr::AtomKind::kTruncToInt: {
      const OnnxValue real = cast(size(atom.operands.at(0)), c10::kDouble);
      return cast(emit("Mul", {real, constant(atom.scale, c10::kDouble)}), c10::kLong);
    }
  }
  fail("a size holds an expression of unknown kind");
}

// ONNX divides integers toward zero, sizes divide toward minus infinity; its Mod has the divisor's sign, as here.
OnnxValue TranslationContext::floor_divide(const Expr& numerator, const Expr& denominator) {
  const OnnxValue a = size(numerator);
  const OnnxValue b = size(denominator);
  if (at_least(numerator, 0) && at_least(denominator, 1)) {
    return emit("Div", {a, b});
  }
  return emit("Div", {emit("Sub", {a, emit("Mod", {a, b})}), b});
}

OnnxValue TranslationContext::size_symbol(Symbol symbol) {
  const Expr expr(symbol);
  if (const Axis* axis = find_axis(expr)) {
    return emit("Shape", {axis->tensor}, {{"start", axis->axis}, {"end", axis->axis + 1}});
  }
  const auto known = symbols_.find(symbol);
  if (known != symbols_.end()) {
    return known->second;
  }
  // An axis of size factor · symbol + offset tells the symbol as well. The smallest expression, for stable output.
  const Expr* best = nullptr;
  for (const auto& [size, axis] : axes_) {
    const auto free = size.free_symbols();
    const auto terms = size.terms();
    const bool affine = free.size() == 1 && free[0] == symbol && !terms.empty() && terms[0].factors.size() == 1 &&
                        terms[0].factors[0].power == 1 && terms[0].factors[0].atom.kind == Expr::AtomKind::kSymbol &&
                        (terms.size() == 1 || (terms.size() == 2 && terms[1].factors.empty()));
    if (affine && (best == nullptr || Expr::compare(size, *best) < 0)) {
      best = &size;
    }
  }
  ensure(best != nullptr, "no input and no intermediate tensor tells the size {}", symbol.name());
  const auto terms = best->terms();
  const int64_t offset = terms.size() == 2 ? terms[1].coefficient : 0;
  const OnnxValue shifted = emit("Sub", {size(*best), constant(std::vector<int64_t>{offset})});
  return emit("Div", {shifted, constant(std::vector<int64_t>{terms[0].coefficient})});
}

OnnxValue TranslationContext::sizes(const Sizes& exprs) {
  OnnxValues parts;
  std::vector<int64_t> numbers;
  auto flush_numbers = [&] {
    if (!numbers.empty()) {
      parts.push_back(constant(numbers));
      numbers.clear();
    }
  };
  for (size_t i = 0; i < exprs.size(); ++i) {
    if (const auto number = exprs[i].as_int()) {
      numbers.push_back(*number);
      continue;
    }
    flush_numbers();
    // Neighbouring axes of one tensor are one Shape.
    const Axis* first = find_axis(exprs[i]);
    size_t count = 1;
    const Axis* next = nullptr;
    while (first != nullptr && i + count < exprs.size() && !exprs[i + count].is_int() &&
           (next = find_axis(exprs[i + count])) != nullptr && next->tensor.name == first->tensor.name &&
           next->axis == first->axis + static_cast<int64_t>(count)) {
      ++count;
    }
    if (count > 1) {
      parts.push_back(
          emit("Shape", {first->tensor}, {{"start", first->axis}, {"end", first->axis + static_cast<int64_t>(count)}}));
      i += count - 1;
    } else {
      parts.push_back(size(exprs[i]));
    }
  }
  flush_numbers();
  if (parts.empty()) {
    return constant(std::vector<int64_t>{});
  }
  return parts.size() == 1 ? parts.front() : emit("Concat", parts, {{"axis", 0}});
}

// ── Movement ──

// Note [Shapes of reshapes]
// Constants where possible: a number, 0 for "as the input's axis here", and one -1. A -1 next to a size that may be
// zero is ambiguous, so it is taken only where every other size is at least 1; else the sizes are computed, and then a
// zero among them must mean zero (allowzero).
OnnxValue TranslationContext::reshape_shape(const Sizes& from, const Sizes& to, bool& allow_zero) {
  std::vector<int64_t> entries;
  size_t unknown = 0;
  bool others_positive = true;
  for (size_t i = 0; i < to.size(); ++i) {
    if (const auto number = to[i].as_int()) {
      entries.push_back(*number);
      others_positive = others_positive && *number > 0;
      allow_zero = allow_zero || *number == 0;
    } else if (i < from.size() && from[i] == to[i]) {
      entries.push_back(0);
      others_positive = others_positive && at_least(to[i], 1);
    } else {
      entries.push_back(-1);
      ++unknown;
    }
  }
  if (!allow_zero && (unknown == 0 || (unknown == 1 && others_positive))) {
    return constant(entries);
  }
  allow_zero = true;
  return sizes(to);
}

OnnxValue TranslationContext::reshape(const OnnxValue& value, const Sizes& from, const Sizes& to) {
  if (same(from, to)) {
    return value;
  }
  if (const Reshaped* reshaped = reshaped_from(value)) {
    const Reshaped origin = *reshaped;
    return reshape(origin.source, origin.sizes, to);
  }
  bool allow_zero = false;
  const OnnxValue shape = reshape_shape(from, to, allow_zero);
  const OnnxValue result = emit("Reshape", {value, shape}, allow_zero ? Attrs{{"allowzero", 1}} : Attrs{});
  reshaped_.emplace(result.name, Reshaped{value, from});
  sizes_.emplace(result.name, to);
  return result;
}

const TranslationContext::Reshaped* TranslationContext::reshaped_from(const OnnxValue& value) const {
  const auto found = reshaped_.find(value.name);
  return found == reshaped_.end() ? nullptr : &found->second;
}

OnnxValue TranslationContext::as_matrix(const OnnxValue& value, const Sizes& sizes) {
  Expr rows = 1;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    rows = rows * sizes[i];
  }
  return reshape(value, sizes, {rows, sizes.back()});
}

OnnxValue TranslationContext::transpose(const OnnxValue& value, const std::vector<int64_t>& perm) {
  std::vector<int64_t> whole = perm;
  OnnxValue source = value;
  if (const Transposed* inner = transposed_from(value)) {
    for (size_t i = 0; i < perm.size(); ++i) {
      whole[i] = inner->perm[static_cast<size_t>(perm[i])];
    }
    source = inner->source;
  }
  if (whole == range_to(static_cast<int64_t>(whole.size()))) {
    return source;
  }
  const OnnxValue result = emit("Transpose", {source}, {{"perm", whole}});
  transposed_.emplace(result.name, Transposed{source, whole});
  return result;
}

const TranslationContext::Transposed* TranslationContext::transposed_from(const OnnxValue& value) const {
  const auto found = transposed_.find(value.name);
  return found == transposed_.end() ? nullptr : &found->second;
}

OnnxValue TranslationContext::expand(const OnnxValue& value, const Sizes& from, const Sizes& to) {
  if (same(from, to)) {
    return value;
  }
  Sizes target = to;  // 1 where the axis stays as it is
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[lead + i]) {
      target[lead + i] = 1;
    }
  }
  const bool widen = value.dtype == c10::kBFloat16;  // no kernel for it on the CPU
  const OnnxValue result = emit("Expand", {widen ? cast(value, c10::kFloat) : value, sizes(target)});
  return cast(result, value.dtype);
}

OnnxValue TranslationContext::unsqueeze(const OnnxValue& value, const std::vector<int64_t>& axes) {
  return axes.empty() ? value : emit("Unsqueeze", {value, constant(axes)});
}

OnnxValue TranslationContext::squeeze(const OnnxValue& value, const std::vector<int64_t>& axes) {
  return axes.empty() ? value : emit("Squeeze", {value, constant(axes)});
}

OnnxValue TranslationContext::slice(const OnnxValue& value, int64_t axis, const OnnxValue& start, const OnnxValue& end,
                                    int64_t step) {
  const auto from = constant_ints(start);
  const auto to = constant_ints(end);
  if (step == 1 && from && to && from->at(0) == 0 && to->at(0) == kToTheEnd) {
    return value;
  }
  return emit("Slice", {value, start, end, constant(std::vector<int64_t>{axis}), constant(std::vector<int64_t>{step})});
}

OnnxValue TranslationContext::where(const OnnxValue& condition, const OnnxValue& yes, const OnnxValue& no) {
  // The CPU provider selects among these types only.
  const c10::ScalarType dtype = yes.dtype;
  const c10::ScalarType selectable = dtype == c10::kBool       ? c10::kByte
                                     : dtype == c10::kShort    ? c10::kInt
                                     : dtype == c10::kBFloat16 ? c10::kFloat
                                                               : dtype;
  return cast(emit_pointwise("Where", {condition, cast(yes, selectable), cast(no, selectable)}), dtype);
}

OnnxValue TranslationContext::full(const Sizes& to, const OnnxValue& scalar) {
  return to.empty() ? scalar : expand(scalar, {}, to);
}

OnnxValue TranslationContext::iota(const Expr& n) {
  return emit("Range", {constant(int64_t{0}), size_scalar(n), constant(int64_t{1})});
}

}  // namespace exporters::onnx
