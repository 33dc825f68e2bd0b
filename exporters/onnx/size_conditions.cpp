#include "exporters/onnx/size_conditions.h"

#include "exporters/support/error.h"
#include "exporters/support/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace exporters::onnx {
namespace {

struct Binding {
  int64_t size = 0;
  std::string where;  ///< "input_ids axis 1"
};

// Plain names only: an expression such as "2*batch" binds nothing.
bool is_name(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::map<std::string, Binding> bind(const std::vector<OnnxValueInfo>& infos, const OnnxRunner::Inputs& inputs) {
  std::map<std::string, Binding> bindings;
  for (const OnnxValueInfo& info : infos) {
    const auto given = inputs.find(info.name);
    if (given == inputs.end() || !info.dims || static_cast<int64_t>(info.dims->size()) != given->second.dim()) {
      continue;
    }
    for (size_t axis = 0; axis < info.dims->size(); ++axis) {
      const auto* name = std::get_if<std::string>(&(*info.dims)[axis]);
      if (name == nullptr || !is_name(*name)) {
        continue;
      }
      const Binding here{given->second.size(static_cast<int64_t>(axis)), info.name + " axis " + std::to_string(axis)};
      const auto [known, is_new] = bindings.emplace(*name, here);
      ensure(is_new || known->second.size == here.size, "'{}' is {} by {}, but {} by {}", *name, known->second.size,
             known->second.where, here.size, here.where);
    }
  }
  return bindings;
}

[[noreturn]] void refuse(const BoolExpr& condition, const std::map<std::string, Binding>& bindings) {
  std::string sizes;
  for (const Symbol symbol : condition.free_symbols()) {
    const Binding& binding = bindings.at(symbol.name());
    sizes += (sizes.empty() ? "" : ", ") + symbol.name() + " is " + std::to_string(binding.size) + " (" +
             binding.where + ")";
  }
  throw Error("the program was exported for sizes with " + condition.str() + "; " + sizes);
}

}  // namespace

std::string SizeConditions::to_metadata() const {
  nlohmann::json list = nlohmann::json::array();
  for (const BoolExpr& condition : conditions_) {
    list.push_back(condition.str());
  }
  return list.dump();
}

SizeConditions SizeConditions::of(const OnnxMetadata& metadata) {
  SizeConditions result;
  for (const auto& [key, value] : metadata) {
    if (key != kSizeConditionsKey) {
      continue;
    }
    const nlohmann::json list = parse_json(value, kSizeConditionsKey);
    for (const std::string& condition : JsonField(list, kSizeConditionsKey).as_strings()) {
      result.conditions_.push_back(BoolExpr::parse(condition));
    }
  }
  return result;
}

void SizeConditions::check(const std::vector<OnnxValueInfo>& infos, const OnnxRunner::Inputs& inputs) const {
  const std::map<std::string, Binding> bindings = bind(infos, inputs);
  for (const BoolExpr& condition : conditions_) {
    const std::vector<Symbol> symbols = condition.free_symbols();
    // A size that depends on data has no input to read it from.
    const bool known =
        std::all_of(symbols.begin(), symbols.end(), [&](Symbol symbol) { return bindings.contains(symbol.name()); });
    if (known && !condition.evaluate([&](Symbol symbol) { return bindings.at(symbol.name()).size; })) {
      refuse(condition, bindings);
    }
  }
}

}  // namespace exporters::onnx
