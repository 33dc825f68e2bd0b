#include "exporters/executorch/edge/bounds.h"

#include "exporters/graph/print.h"
#include "exporters/support/error.h"
#include "exporters/symbolic/interval.h"
#include "exporters/symbolic/shape_env.h"

#include <algorithm>
#include <limits>

namespace exporters::executorch {

struct Bounds::Impl {
  ShapeEnv env;
  std::vector<Expr> limits;  // each is at most 0
  std::unordered_map<Expr, Range> known;

  // Expressions are multiplied out: of batch * (length//12 - 1), a sum of two products, term by term both symbols' ends
  // meet that never do. Symbols that divide the whole are taken out first. A view that is flattened so would else seem
  // larger than what it shows.
  Range by_factors(const Expr& size) const {
    for (const Symbol symbol : size.free_symbols()) {
      const Expr rest = floordiv(size, symbol);
      if (!rest.is_int() && rest * symbol == size) {
        return interval_multiply(env.bounds(symbol), by_factors(rest));
      }
    }
    return env.bounds(size);
  }

  Range compute(const Expr& size) const {
    Range range = intersect(env.bounds(size), by_factors(size));
    for (const Expr& limit : limits) {
      // limit = size - bound
      if (const auto bound = (size - limit).as_int()) {
        range.max = std::min(range.max, *bound);
      }
    }
    return range;
  }
};

Bounds::Bounds(const ExportedProgram& program) : impl_(std::make_unique<Impl>()) {
  for (const auto& [name, range] : program.range_constraints) {
    impl_->env.declare(Symbol(name), range);
  }
  for (const Guard& guard : program.guards) {
    if (guard.condition.kind() == BoolExpr::Kind::kLe) {
      impl_->limits.push_back(guard.condition.operand());
    }
  }
}

Bounds::Bounds(Bounds&&) noexcept = default;
Bounds::~Bounds() = default;

Range Bounds::range(const Expr& size) const {
  if (const auto number = size.as_int()) {
    return {*number, *number};
  }
  auto [place, is_new] = impl_->known.try_emplace(size);
  if (is_new) {
    place->second = impl_->compute(size);
  }
  return place->second;
}

int64_t Bounds::upper(const Expr& size) const {
  const Range bounds = range(size);
  if (bounds.max == Range::kMax) {
    throw Error("the size " + size.str() + " has no upper bound, and memory is planned for the largest size", {},
                "Give the axes that it comes from a largest size: --max-dim name=N.");
  }
  return bounds.max;
}

std::vector<int32_t> Bounds::sizes(const Value& value) const {
  std::vector<int32_t> result;
  for (const Expr& size : value.meta().sizes) {
    int64_t largest = 0;
    try {
      largest = upper(size);
    } catch (const Error& error) {
      throw error.with_context("value '" + value.name() + "' " + to_text(value.meta()));
    }
    ensure(largest >= 0 && largest <= std::numeric_limits<int32_t>::max(),
           "value '{}' {} can have a size of {}, and ExecuTorch's sizes have 32 bits", value.name(),
           to_text(value.meta()), largest);
    result.push_back(static_cast<int32_t>(largest));
  }
  return result;
}

bool is_static(const TensorMeta& meta) { return symbolic_axes(meta) == 0; }

int64_t symbolic_axes(const TensorMeta& meta) {
  return std::count_if(meta.sizes.begin(), meta.sizes.end(), [](const Expr& size) { return !size.is_int(); });
}

}  // namespace exporters::executorch
