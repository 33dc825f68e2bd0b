#include "exporters/symbolic/dim.h"

#include "exporters/symbolic/expr_node.h"

namespace exporters {
namespace {

std::string bound_text(int64_t bound) {
  return bound == Range::kMax ? "int_oo" : bound == Range::kMin ? "-int_oo" : std::to_string(bound);
}

void check_name(const std::string& name) {
  bool good = !name.empty() && name.size() <= 128 && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char c : name) {
    good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  }
  if (!good) {
    throw Error(fmt::format("'{}' cannot be the name of a Dim", name.substr(0, 200)), "",
                "Use letters, digits and underscores, not a digit first.");
  }
}

void check_range(const std::string& what, Range range) {
  if (range.min < 0 || range.min > range.max) {
    throw Error(fmt::format("{} has the impossible range {}", what, range.str()), "",
                "The minimum must be at least 0 and at most the maximum.");
  }
}

}  // namespace

std::string Range::str() const { return "[" + bound_text(min) + ", " + bound_text(max) + "]"; }

Dim Dim::Auto(std::optional<int64_t> min, std::optional<int64_t> max) {
  Dim dim;
  dim.range_ = {min.value_or(0), max.value_or(Range::kMax)};
  check_range("Dim::Auto", dim.range_);
  return dim;
}

Dim Dim::Static() {
  Dim dim;
  dim.kind_ = Kind::kStatic;
  return dim;
}

Dim Dim::named(std::string name, int64_t min, int64_t max) { return derived(std::move(name), 1, 0, {min, max}); }

Dim Dim::derived(std::string name, int64_t factor, int64_t offset, Range root_range) {
  check_name(name);
  check_range("Dim '" + name + "'", root_range);
  if (factor < 1) {
    throw Error(fmt::format("Dim '{}' is derived with the factor {}", name, factor), "",
                "Derived dims are factor*name + offset with a factor of at least 1.");
  }
  Dim dim;
  dim.kind_ = Kind::kNamed;
  dim.name_ = std::move(name);
  dim.factor_ = factor;
  dim.offset_ = offset;
  dim.range_ = root_range;
  return dim;
}

Dim Dim::parse(std::string_view text) {
  const Expr expr = Expr::parse(text);
  const auto terms = expr.terms();
  const bool has_offset = terms.size() == 2 && terms[1].factors.empty();
  const bool linear = (terms.size() == 1 || has_offset) && terms[0].factors.size() == 1 &&
                      terms[0].factors[0].power == 1 && terms[0].factors[0].atom.symbol;
  if (!linear) {
    throw Error(fmt::format("'{}' is no Dim", expr.str()), "",
                "Write a name, or a factor times a name plus an offset, as in '2*batch + 1'.");
  }
  return derived(terms[0].factors[0].atom.symbol->name(), terms[0].coefficient, has_offset ? terms[1].coefficient : 0);
}

std::string Dim::str() const {
  if (kind_ == Kind::kStatic) {
    return "DimHint(STATIC)";
  }
  if (factor_ != 1 || offset_ != 0) {
    return (Expr(factor_) * Expr(Symbol(name_)) + Expr(offset_)).str();
  }
  // The reference leaves out an open maximum and the minimum that is its own default.
  const int64_t default_min = kind_ == Kind::kAuto ? 0 : 2;
  std::string text = kind_ == Kind::kAuto ? "DimHint(AUTO" : "Dim('" + name_ + "'";
  text += range_.min == default_min ? "" : ", min=" + std::to_string(range_.min);
  text += range_.max == Range::kMax ? "" : ", max=" + std::to_string(range_.max);
  return text + ")";
}

}  // namespace exporters
