#include "exporters/interpreter/size_check.h"

#include "exporters/graph/dtype.h"
#include "exporters/support/error.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_set>

namespace exporters {
namespace {

std::string place_of(std::string_view input, int64_t axis) {
  if (input.empty()) {
    return "a size that depends on data";
  }
  return axis < 0 ? fmt::format("input '{}'", input) : fmt::format("input '{}' axis {}", input, axis);
}

/// coefficient * symbol + constant
struct Linear {
  int64_t coefficient = 0;
  int64_t constant = 0;
};

std::optional<Linear> as_linear(const Expr& expr) {
  Linear linear;
  for (const Expr::Term& term : expr.terms()) {
    const bool is_symbol =
        term.factors.size() == 1 && term.factors[0].power == 1 && term.factors[0].atom.kind == Expr::AtomKind::kSymbol;
    if (is_symbol) {
      linear.coefficient = term.coefficient;
    } else if (term.factors.empty()) {
      linear.constant = term.coefficient;
    } else {
      return std::nullopt;
    }
  }
  return linear;
}

/// The symbol's value when the whole is `given`; nothing when no integer is.
std::optional<int64_t> solve(const Linear& linear, int64_t given) {
  int64_t rest = 0;
  if (__builtin_sub_overflow(given, linear.constant, &rest) || rest % linear.coefficient != 0) {
    return std::nullopt;
  }
  return rest / linear.coefficient;
}

}  // namespace

SizeCheck::SizeCheck(const ExportedProgram& program, const std::vector<std::pair<const Value*, std::string>>& inputs) {
  for (const auto& [name, range] : program.range_constraints) {
    ranges_[symbol_index(Symbol(name))] = range;
  }
  for (const auto& [placeholder, name] : inputs) {
    inputs_.push_back({placeholder, name});
  }
  for (const Guard& guard : program.guards) {
    Condition condition{&guard, {}};
    for (const Symbol& symbol : guard.condition.free_symbols()) {
      condition.symbols.push_back(symbol_index(symbol));
    }
    conditions_.push_back(std::move(condition));
  }
  collect_produced(*program.graph);
}

size_t SizeCheck::symbol_index(const Symbol& symbol) {
  const auto [found, inserted] = indices_.emplace(symbol, names_.size());
  if (inserted) {
    names_.push_back(symbol.name());
    ranges_.emplace_back();
  }
  return found->second;
}

// Of each symbol that no input has, the first output that is it or has a size that is it.
void SizeCheck::collect_produced(const Graph& graph) {
  std::unordered_set<Symbol> known;
  auto learn = [&](const Expr& expr) {
    for (const Symbol& symbol : expr.free_symbols()) {
      known.insert(symbol);
    }
  };
  auto produce = [&](const Node& node, const Expr& expr, size_t output, std::optional<size_t> element, int64_t axis) {
    const auto symbol = expr.as_symbol();
    if (symbol && known.insert(*symbol).second) {
      produced_[&node].push_back({output, element, axis, symbol_index(*symbol)});
    }
  };
  auto produce_sizes = [&](const Node& node, const Value& value, size_t output, std::optional<size_t> element) {
    for (int64_t axis = 0; axis < value.meta().dim(); ++axis) {
      produce(node, value.meta().sizes[axis], output, element, axis);
    }
  };
  for (const Node& node : graph) {
    for (const Value* output : node.outputs()) {
      if (node.is_placeholder()) {
        std::for_each(output->meta().sizes.begin(), output->meta().sizes.end(), learn);
        learn(output->sym());
      } else if (output->is_tensor()) {
        produce_sizes(node, *output, output->output_index(), std::nullopt);
      } else if (output->kind() == Value::Kind::kSymInt) {
        produce(node, output->sym(), output->output_index(), std::nullopt, -1);
      }
      for (const Value* element : output->elements()) {
        produce_sizes(node, *element, output->output_index(), element->output_index());
      }
    }
  }
}

SizeCheck::Symbols SizeCheck::bind(std::span<const c10::IValue> values) const {
  Symbols symbols;
  symbols.bound.resize(names_.size());
  std::vector<Pending> pending;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].placeholder->is_tensor()) {
      check_tensor(inputs_[i], values[i], symbols, pending);
    } else if (values[i].isInt()) {
      check_size(inputs_[i], -1, inputs_[i].placeholder->sym(), values[i].toInt(), symbols, pending);
    }
  }
  resolve(std::move(pending), symbols);
  for (size_t symbol = 0; symbol < names_.size(); ++symbol) {
    if (symbols.bound[symbol]) {
      check_range(symbol, *symbols.bound[symbol]);
    }
  }
  check_guards(symbols, std::nullopt);
  return symbols;
}

void SizeCheck::check_tensor(const Input& input, const c10::IValue& value, Symbols& symbols,
                             std::vector<Pending>& pending) const {
  const at::Tensor& tensor = value.toTensor();
  const TensorMeta& meta = input.placeholder->meta();
  ensure(tensor.defined(), "Input '{}' is no tensor", input.name);
  ensure(tensor.dim() == meta.dim(), "Input '{}' has {} axes, the program takes {}", input.name, tensor.dim(),
         meta.dim());
  ensure(tensor.scalar_type() == meta.dtype, "Input '{}' is {}, the program takes {}", input.name,
         c10::toString(tensor.scalar_type()), dtype_name(meta.dtype));
  for (int64_t axis = 0; axis < meta.dim(); ++axis) {
    check_size(input, axis, meta.sizes[axis], tensor.size(axis), symbols, pending);
  }
}

void SizeCheck::check_size(const Input& input, int64_t axis, const Expr& expr, int64_t given, Symbols& symbols,
                           std::vector<Pending>& pending) const {
  if (const auto fixed = expr.as_int()) {
    ensure(given == *fixed, "The size of {} is {}, the program takes {} only", place_of(input.name, axis), given,
           *fixed);
  } else if (const auto symbol = expr.as_symbol()) {
    const auto index = indices_.find(*symbol);
    if (index != indices_.end()) {
      bind_symbol(index->second, {given, input.name, axis}, symbols);
    }
  } else {
    pending.push_back({&expr, &input, axis, given});
  }
}

void SizeCheck::bind_symbol(size_t symbol, const Bound& bound, Symbols& symbols) const {
  std::optional<Bound>& known = symbols.bound[symbol];
  if (known) {
    ensure(known->value == bound.value, "The size of {} is {}, but of {} it is {}; the two have to be equal ({})",
           place_of(bound.input, bound.axis), bound.value, place_of(known->input, known->axis), known->value,
           names_[symbol]);
  }
  known = known.value_or(bound);
}

// Each round resolves what the last one made solvable.
void SizeCheck::resolve(std::vector<Pending> pending, Symbols& symbols) const {
  while (!pending.empty()) {
    const size_t before = pending.size();
    std::erase_if(pending, [&](const Pending& one) { return resolve_one(one, symbols); });
    if (pending.size() == before) {
      const Pending& stuck = pending.front();
      fail("The size of {} is {}, which does not determine the symbols in {}", place_of(stuck.input->name, stuck.axis),
           stuck.given, stuck.expr->str());
    }
  }
}

bool SizeCheck::resolve_one(const Pending& pending, Symbols& symbols) const {
  const Expr partial = pending.expr->substitute([&](Symbol symbol) -> std::optional<Expr> {
    const auto index = indices_.find(symbol);
    const bool known = index != indices_.end() && symbols.bound[index->second].has_value();
    return known ? std::optional<Expr>(symbols.bound[index->second]->value) : std::nullopt;
  });
  if (const auto value = partial.as_int()) {
    ensure(*value == pending.given, "The size of {} is {}, it has to be {} ({})",
           place_of(pending.input->name, pending.axis), pending.given, *value, pending.expr->str());
    return true;
  }
  const std::vector<Symbol> unknown = partial.free_symbols();
  const auto index = unknown.size() == 1 ? indices_.find(unknown[0]) : indices_.end();
  if (index == indices_.end()) {
    return false;
  }
  const std::optional<Linear> linear = as_linear(partial);
  if (!linear) {
    return false;
  }
  const std::optional<int64_t> solution = solve(*linear, pending.given);
  ensure(solution.has_value(), "The size of {} is {}, which is not of the form {}",
         place_of(pending.input->name, pending.axis), pending.given, pending.expr->str());
  bind_symbol(index->second, {*solution, pending.input->name, pending.axis}, symbols);
  return true;
}

void SizeCheck::check_range(size_t symbol, const Bound& bound) const {
  ensure(ranges_[symbol].contains(bound.value), "The size of {} gives {} = {}, allowed is {}",
         place_of(bound.input, bound.axis), names_[symbol], bound.value, ranges_[symbol].str());
}

// `newest`: only the guards that this symbol makes decidable.
void SizeCheck::check_guards(const Symbols& symbols, std::optional<size_t> newest) const {
  for (const Condition& condition : conditions_) {
    const auto is_bound = [&](size_t symbol) { return symbols.bound[symbol].has_value(); };
    if (!std::all_of(condition.symbols.begin(), condition.symbols.end(), is_bound) ||
        (newest && std::find(condition.symbols.begin(), condition.symbols.end(), *newest) == condition.symbols.end())) {
      continue;
    }
    const bool holds =
        condition.guard->condition.evaluate([&](Symbol symbol) { return symbols.bound[indices_.at(symbol)]->value; });
    if (holds) {
      continue;
    }
    std::string given;
    for (size_t symbol : condition.symbols) {
      given += (given.empty() ? "" : ", ") + describe(symbol, *symbols.bound[symbol]);
    }
    throw Error(
        fmt::format("The program was traced under the condition {}, here {}", condition.guard->condition.str(), given),
        condition.guard->place.str());
  }
}

void SizeCheck::observe(const Node& node, std::span<const c10::IValue> outputs, Symbols& symbols) const {
  const auto found = produced_.find(&node);
  if (found == produced_.end()) {
    return;
  }
  for (const Produced& produced : found->second) {
    const c10::IValue& output = outputs[produced.output];
    int64_t value = 0;
    if (produced.axis < 0) {
      value = output.toInt();
    } else {
      const at::Tensor tensor = produced.element ? output.toTensorList().get(*produced.element) : output.toTensor();
      value = tensor.size(produced.axis);
    }
    bind_symbol(produced.symbol, {value, {}, produced.axis}, symbols);
    check_range(produced.symbol, *symbols.bound[produced.symbol]);
    check_guards(symbols, produced.symbol);
  }
}

std::string SizeCheck::describe(size_t symbol, const Bound& bound) const {
  return fmt::format("{} = {} ({})", names_[symbol], bound.value, place_of(bound.input, bound.axis));
}

}  // namespace exporters
