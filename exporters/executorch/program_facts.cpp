#include "exporters/executorch/program_facts.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace exporters::executorch {

using nlohmann::ordered_json;

namespace {

ordered_json values_json(const std::vector<ValueDescription>& values) {
  ordered_json list = ordered_json::array();
  for (const ValueDescription& value : values) {
    list.push_back({{"name", value.name}, {"dtype", value.dtype}, {"dims", value.dims}});
  }
  return list;
}

std::vector<ValueDescription> values_of(const JsonField& list) {
  std::vector<ValueDescription> values;
  for (const JsonField& entry : list.elements()) {
    values.push_back({entry.at("name").as_string(), entry.at("dtype").as_string(), entry.at("dims").as_strings()});
  }
  return values;
}

struct Binding {
  int64_t size = 0;
  std::string where;  // "axis 1 of 'input_ids'"
};
using Bindings = std::map<std::string, Binding>;

// Plain names only: an expression such as "2*batch" binds nothing.
bool is_name(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// The size of a fixed axis.
std::optional<int64_t> number_in(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

void bind(Bindings& bindings, const ValueDescription& input, const at::Tensor& given) {
  for (size_t axis = 0; axis < input.dims.size() && static_cast<int64_t>(axis) < given.dim(); ++axis) {
    if (const auto fixed = number_in(input.dims[axis])) {
      ensure(given.size(static_cast<int64_t>(axis)) == *fixed, "axis {} of '{}' is {}, the program takes {} only", axis,
             input.name, given.size(static_cast<int64_t>(axis)), *fixed);
    }
    if (!is_name(input.dims[axis])) {
      continue;
    }
    const Binding here{given.size(static_cast<int64_t>(axis)), fmt::format("axis {} of '{}'", axis, input.name)};
    const auto [known, is_new] = bindings.emplace(input.dims[axis], here);
    ensure(is_new || known->second.size == here.size, "'{}' is {} by {}, but {} by {}", input.dims[axis],
           known->second.size, known->second.where, here.size, here.where);
  }
}

void check_condition(const BoolExpr& condition, const Bindings& bindings) {
  const std::vector<Symbol> symbols = condition.free_symbols();
  // A size that depends on data has no input to read it from.
  const bool known =
      std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return bindings.contains(symbol.name()); });
  if (!known || condition.evaluate([&](Symbol symbol) { return bindings.at(symbol.name()).size; })) {
    return;
  }
  std::string sizes;
  std::string options;
  for (const Symbol symbol : symbols) {
    const Binding& binding = bindings.at(symbol.name());
    options += fmt::format(" --max-dim {}=N", symbol.name());
    sizes += fmt::format("{}{} is {} ({})", sizes.empty() ? "" : ", ", symbol.name(), binding.size, binding.where);
  }
  // Only an upper bound is one that an export chose; other conditions are the model's.
  const bool is_bound = condition.kind() == BoolExpr::Kind::kLe;
  throw Error("the program was exported for sizes with " + condition.str() + "; " + sizes, {},
              is_bound ? "Export again with a larger range:" + options + "." : "The model's code asks for that.");
}

}  // namespace

std::string ProgramFacts::to_json() const {
  ordered_json limits = ordered_json::object();
  for (const auto& [input, limit] : index_limits) {
    limits[input] = {{"limit", limit.limit}, {"note", limit.note}};
  }
  ordered_json left = ordered_json::array();
  for (const OutsideDelegates& each : outside) {
    left.push_back({{"op", each.op}, {"reason", each.reason}, {"count", each.count}});
  }
  return ordered_json{{"inputs", values_json(inputs)},
                      {"outputs", values_json(outputs)},
                      {"conditions", conditions},
                      {"index_limits", std::move(limits)},
                      {"backend", backend},
                      {"delegated_calls", delegated_calls},
                      {"outside", std::move(left)}}
      .dump();
}

ProgramFacts ProgramFacts::from_json(const std::string& text) {
  const nlohmann::json document = parse_json(text, std::string(kFactsKey));
  const JsonField root(document, std::string(kFactsKey));
  ProgramFacts facts;
  facts.inputs = values_of(root.at("inputs"));
  facts.outputs = values_of(root.at("outputs"));
  facts.conditions = root.at("conditions").as_strings();
  const JsonField limits = root.at("index_limits");
  for (const std::string& input : limits.keys()) {
    const JsonField entry = limits.at(input);
    facts.index_limits[input] = {entry.at("limit").as_int(), entry.at("note").as_string()};
  }
  facts.backend = root.at("backend").as_string();
  facts.delegated_calls = root.at("delegated_calls").as_int();
  for (const JsonField& entry : root.at("outside").elements()) {
    facts.outside.push_back({entry.at("op").as_string(), entry.at("reason").as_string(), entry.at("count").as_int()});
  }
  return facts;
}

void ProgramFacts::check(const std::map<std::string, at::Tensor>& given) const {
  Bindings bindings;
  for (const ValueDescription& input : inputs) {
    if (const auto found = given.find(input.name); found != given.end() && found->second.defined()) {
      bind(bindings, input, found->second);
    }
  }
  for (const std::string& condition : conditions) {
    check_condition(BoolExpr::parse(condition), bindings);
  }
  for (const auto& [name, limit] : index_limits) {
    if (const auto found = given.find(name); found != given.end() && found->second.defined()) {
      check_indices(name, found->second, limit);
    }
  }
}

}  // namespace exporters::executorch
