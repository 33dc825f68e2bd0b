#include "exporters/pt2/symbols.h"

#include "exporters/support/error.h"
#include "exporters/support/log.h"
#include "exporters/support/quote.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace exporters::pt2 {
namespace {

// As torch names them: "u0" for a size that depends on data.
bool is_unbacked(const std::string& symbol) { return symbol.starts_with('u'); }

bool is_symbol_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }) &&
         !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0;
}

// Note [Sizes 0 and 1]
// torch.export traces with the assumption that a dynamic size is 2 or more, and writes that as the lower bound; its own
// check of a call lets 0 and 1 pass all the same (_check_input_constraints_for_graph). So a lower bound of up to 2 is
// no bound. What depends on data has real bounds.
Range read_range(const std::string& symbol, const Json& json) {
  Range range;
  if (const Json* min = find_member(json, "min_val")) {
    range.min = as_int(*min);
  }
  if (const Json* max = find_member(json, "max_val")) {
    range.max = as_int(*max);
  }
  ensure(range.min <= range.max, "The range of {} is empty: {}", quote(symbol), range.str());
  if (!is_unbacked(symbol) && 0 <= range.min && range.min <= 2) {
    range.min = 0;
  }
  return range;
}

void add_range_guard(const std::string& text, const Range& range, ExportedProgram& program) {
  const Expr expr = Expr::parse(text);
  if (range.min != Range::kMin) {
    program.guards.push_back({ge(expr, range.min), {}});
  }
  if (range.max != Range::kMax) {
    program.guards.push_back({le(expr, range.max), {}});
  }
}

}  // namespace

Expr Symbols::read(const Json& sym_int) {
  const Tagged value = as_union(sym_int);
  if (value.tag == "as_int") {
    return as_int(value.value);
  }
  ensure(value.tag == "as_expr", "A size is {}, where a number or an expression is expected", quote(value.tag));
  const Expr& expr = parse(as_text(member(value.value, "expr_str")));
  const Json* hint = find_member(value.value, "hint");
  const auto symbol = expr.as_symbol();
  if (hint != nullptr && symbol) {
    const Tagged sample = as_union(*hint);
    if (sample.tag == "as_int") {
      hints_.emplace(symbol->name(), as_int(sample.value));
    }
  }
  return expr;
}

const Expr& Symbols::parse(const std::string& text) {
  const auto known = expressions_.find(text);
  if (known != expressions_.end()) {
    return known->second;
  }
  Expr expr = Expr::parse(text);
  for (const Symbol& symbol : expr.free_symbols()) {
    used_.insert(symbol);
  }
  return expressions_.emplace(text, std::move(expr)).first->second;
}

void Symbols::finish(const Json& range_constraints, ExportedProgram& program) const {
  for (const auto& [name, json] : as_object(range_constraints)) {
    const Range range = read_range(name, json);
    if (is_symbol_name(name)) {
      program.range_constraints.emplace(name, range);
    } else {
      add_range_guard(name, range, program);
    }
  }
  std::vector<std::string> unbounded;
  for (const Symbol& symbol : used_) {
    const bool is_size = !is_unbacked(symbol.name());
    if (program.range_constraints.emplace(symbol.name(), Range{is_size ? 0 : Range::kMin, Range::kMax}).second) {
      unbounded.push_back(quote(symbol.name()));
    }
  }
  if (!unbounded.empty()) {
    std::sort(unbounded.begin(), unbounded.end());
    log_warning("The program gives no range for the sizes {}: any is taken", fmt::join(unbounded, ", "));
  }
  for (const auto& [name, hint] : hints_) {
    if (program.range_constraints.contains(name)) {
      program.hints.emplace(name, hint);
    }
  }
}

}  // namespace exporters::pt2
