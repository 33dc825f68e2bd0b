#include "exporters/pt2/assert_nodes.h"

#include "exporters/pt2/schema.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace exporters::pt2 {
namespace {

using Json = nlohmann::json;
using AtomKind = Expr::AtomKind;

Json named(const std::string& name, const char* kind) { return {{kind, {{"as_name", name}}}}; }

Json input(const char* name, Json argument) {
  return {{"name", name}, {"arg", std::move(argument)}, {"kind", static_cast<int64_t>(ArgumentKind::kPositional)}};
}

const char* comparison(BoolExpr::Kind kind) {
  return kind == BoolExpr::Kind::kEq ? "_operator.eq" : kind == BoolExpr::Kind::kNe ? "_operator.ne" : "_operator.le";
}

}  // namespace

AssertNodes::AssertNodes(std::vector<RuntimeAssert> asserts, MetaJson& metas,
                         std::function<std::string(std::string_view)> fresh_name, Json metadata)
    : asserts_(std::move(asserts)), metas_(metas), fresh_name_(std::move(fresh_name)), metadata_(std::move(metadata)) {}

void AssertNodes::observe(const Value& value) {
  if (asserts_.empty()) {
    return;
  }
  if (value.kind() == Value::Kind::kSymInt && value.sym().as_symbol()) {
    sources_.emplace(*value.sym().as_symbol(), Source{value.name()});
  }
  for (int64_t axis = 0; value.is_tensor() && axis < value.meta().dim(); ++axis) {
    if (const auto symbol = value.meta().sizes[axis].as_symbol()) {
      sources_.emplace(*symbol, Source{value.name(), axis});
    }
  }
  for (const Value* element : value.elements()) {
    observe(*element);
  }
}

Json AssertNodes::due() {
  const auto first_due = std::stable_partition(asserts_.begin(), asserts_.end(),
                                               [&](const RuntimeAssert& each) { return !is_known(each.condition); });
  for (auto it = first_due; it != asserts_.end(); ++it) {
    const Json condition = truth(it->condition);
    nodes_.push_back(
        {{"target", "torch.ops.aten._assert_scalar.default"},
         {"inputs", Json::array({input("self", condition), input("assert_msg", {{"as_string", it->message}})})},
         {"outputs", Json::array()},
         {"metadata", metadata_},
         {"is_hop_single_tensor_return", nullptr},
         {"name", fresh_name_("_assert_scalar_default")}});
  }
  asserts_.erase(first_due, asserts_.end());
  return std::exchange(nodes_, Json::array());
}

void AssertNodes::finish() const {
  if (!asserts_.empty()) {
    fail("Cannot save the program into a .pt2 archive: nothing in it has the sizes that the condition {} is on",
         asserts_.front().condition.str());
  }
}

bool AssertNodes::is_known(const BoolExpr& condition) const {
  const std::vector<Symbol> symbols = condition.free_symbols();
  return std::all_of(symbols.begin(), symbols.end(), [&](Symbol each) { return sources_.contains(each); });
}

Json AssertNodes::truth(const BoolExpr& condition) {
  const BoolExpr::Kind kind = condition.kind();
  if (const auto value = condition.as_bool()) {
    return {{"as_bool", *value}};
  }
  if (kind != BoolExpr::Kind::kAnd && kind != BoolExpr::Kind::kOr) {
    return bool_node(comparison(kind), number(condition.operand()).argument, {{"as_int", 0}}, condition);
  }
  const bool is_and = kind == BoolExpr::Kind::kAnd;
  const std::vector<BoolExpr>& operands = condition.operands();
  Json result = truth(operands[0]);
  BoolExpr partial = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    partial = is_and ? partial && operands[i] : partial || operands[i];
    result = bool_node(is_and ? "_operator.and_" : "_operator.or_", result, truth(operands[i]), partial);
  }
  return result;
}

AssertNodes::Number AssertNodes::number(const Expr& expr) {
  if (const auto constant = expr.as_int()) {
    return {{{"as_int", *constant}}, expr};
  }
  if (const auto found = numbers_.find(expr); found != numbers_.end()) {
    return found->second;
  }
  std::optional<Number> sum;
  for (const Expr::Term& next : expr.terms()) {
    const Number value = term(next);
    sum = sum ? int_node("_operator.add", *sum, value, sum->value + value.value) : value;
  }
  return numbers_.emplace(expr, std::move(*sum)).first->second;
}

AssertNodes::Number AssertNodes::term(const Expr::Term& term) {
  const bool is_plain = term.coefficient == 1 && !term.factors.empty();
  std::optional<Number> product = is_plain ? std::nullopt : std::optional(number(Expr(term.coefficient)));
  for (const Expr::Factor& factor : term.factors) {
    const Number value = atom(factor.atom);
    for (int64_t i = 0; i < factor.power; ++i) {
      product = product ? int_node("_operator.mul", *product, value, product->value * value.value) : value;
    }
  }
  return *product;
}

AssertNodes::Number AssertNodes::atom(const Expr::Atom& atom) {
  switch (atom.kind) {
    case AtomKind::kSymbol:
      return read(*atom.symbol);
    case AtomKind::kTruncToInt:
      return truncated(atom);
    default:
      break;
  }
  struct Operation {
    AtomKind kind;
    const char* target;
    Expr (*result)(const Expr&, const Expr&);
  };
  static constexpr Operation kOperations[] = {{AtomKind::kFloorDiv, "_operator.floordiv", floordiv},
                                              {AtomKind::kMod, "_operator.mod", mod},
                                              {AtomKind::kMin, "torch.sym_min", min},
                                              {AtomKind::kMax, "torch.sym_max", max}};
  const Operation& operation = *std::find_if(std::begin(kOperations), std::end(kOperations),
                                             [&](const Operation& each) { return each.kind == atom.kind; });
  Number result = number(atom.operands[0]);
  for (size_t i = 1; i < atom.operands.size(); ++i) {
    const Number next = number(atom.operands[i]);
    result = int_node(operation.target, result, next, operation.result(result.value, next.value));
  }
  return result;
}

AssertNodes::Number AssertNodes::read(Symbol symbol) {
  if (const auto found = numbers_.find(symbol); found != numbers_.end()) {
    return found->second;
  }
  const Source& source = sources_.at(symbol);
  std::string name = source.value;
  if (source.axis >= 0) {
    name = add_node("torch.ops.aten.sym_size.int",
                    Json::array({input("self", {{"as_tensor", {{"name", source.value}}}}),
                                 input("dim", {{"as_int", source.axis}})}),
                    "as_sym_int");
    ints_[name] = metas_.size(symbol);
  }
  return numbers_.emplace(symbol, Number{named(name, "as_sym_int"), symbol}).first->second;
}

// trunc(operand * scale)
AssertNodes::Number AssertNodes::truncated(const Expr::Atom& atom) {
  const Number operand = number(atom.operands[0]);
  const std::string scaled =
      add_node("_operator.mul", Json::array({input("a", operand.argument), input("b", {{"as_float", atom.scale}})}),
               "as_sym_float");
  const Expr result = trunc_to_int(operand.value, atom.scale);
  const std::string text =
      fmt::format("Mul(Float('{}', precision=53), ToFloat({}))", atom.scale, operand.value.srepr());
  floats_[scaled] = {{"as_expr", {{"expr_str", text}, {"hint", nullptr}}}};
  const std::string name =
      add_node("math.trunc", Json::array({input("x", named(scaled, "as_sym_float"))}), "as_sym_int");
  ints_[name] = metas_.size(result);
  return {named(name, "as_sym_int"), result};
}

AssertNodes::Number AssertNodes::int_node(const std::string& target, const Number& a, const Number& b, Expr result) {
  const std::string name =
      add_node(target, Json::array({input("a", a.argument), input("b", b.argument)}), "as_sym_int");
  ints_[name] = metas_.size(result);
  return {named(name, "as_sym_int"), std::move(result)};
}

Json AssertNodes::bool_node(const std::string& target, const Json& a, const Json& b, const BoolExpr& result) {
  const std::string name = add_node(target, Json::array({input("a", a), input("b", b)}), "as_sym_bool");
  bools_[name] = {{"as_expr", {{"expr_str", result.srepr()}, {"hint", nullptr}}}};
  return named(name, "as_sym_bool");
}

std::string AssertNodes::add_node(const std::string& target, Json inputs, const char* kind) {
  std::string hint = target.substr(target.find_last_of('.') + 1);
  std::string name = fresh_name_(target.ends_with(".int") ? "sym_size_int" : hint);
  nodes_.push_back({{"target", target},
                    {"inputs", std::move(inputs)},
                    {"outputs", Json::array({named(name, kind)})},
                    {"metadata", metadata_},
                    {"is_hop_single_tensor_return", nullptr},
                    {"name", name}});
  return name;
}

}  // namespace exporters::pt2
