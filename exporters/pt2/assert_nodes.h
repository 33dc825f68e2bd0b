#pragma once

#include "exporters/graph/graph.h"
#include "exporters/pt2/meta_json.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace exporters::pt2 {

/// A condition that the saved graph checks while it runs.
struct RuntimeAssert {
  BoolExpr condition;
  std::string message;
};

/// Nodes that check conditions on sizes: each symbol is read from the first value that has it, the expressions are
/// computed, and aten._assert_scalar holds the outcome against true. Each condition is checked as soon as its symbols
/// are there.
class AssertNodes {
 public:
  /// `fresh_name` makes names that nothing else in the graph has; `metadata` is what the nodes carry.
  AssertNodes(std::vector<RuntimeAssert> asserts, MetaJson& metas,
              std::function<std::string(std::string_view)> fresh_name, nlohmann::json metadata);

  /// A value of the graph from which its symbols can be read from now on.
  void observe(const Value& value);
  /// Nodes for the conditions that can be checked now and were not yet.
  nlohmann::json due();
  /// Throws Error when a condition was never due.
  void finish() const;

  /// Descriptions of what the nodes give, by name.
  const nlohmann::json& ints() const { return ints_; }
  const nlohmann::json& floats() const { return floats_; }
  const nlohmann::json& bools() const { return bools_; }

 private:
  using Json = nlohmann::json;

  struct Number {
    Json argument;
    Expr value;
  };

  bool is_known(const BoolExpr& condition) const;
  Number number(const Expr& expr);
  Number term(const Expr::Term& term);
  Number atom(const Expr::Atom& atom);
  Number read(Symbol symbol);
  Number truncated(const Expr::Atom& atom);
  Number int_node(const std::string& target, const Number& a, const Number& b, Expr result);
  Json truth(const BoolExpr& condition);
  Json bool_node(const std::string& target, const Json& a, const Json& b, const BoolExpr& result);
  std::string add_node(const std::string& target, Json inputs, const char* kind);

  std::vector<RuntimeAssert> asserts_;
  MetaJson& metas_;
  std::function<std::string(std::string_view)> fresh_name_;
  Json metadata_;
  struct Source {
    std::string value;
    int64_t axis = -1;  ///< of a tensor; a number has none
  };
  std::unordered_map<Symbol, Source> sources_;
  std::unordered_map<Expr, Number> numbers_;
  Json nodes_ = Json::array();
  Json ints_ = Json::object();
  Json floats_ = Json::object();
  Json bools_ = Json::object();
};

}  // namespace exporters::pt2
