#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/pt2/assert_nodes.h"
#include "exporters/pt2/meta_json.h"
#include "exporters/pt2/sym_text.h"

#include <ATen/core/jit_type_base.h>
#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace exporters::pt2 {

/// How a value is named: {"as_tensor": {"name": "linear"}}, {"as_sym_int": {"as_name": "s"}}. Throws Error, naming the
/// node, for values that the schema has no place for.
nlohmann::json value_json(const Value& value);
/// An argument of a node, an output of a graph, a constant input: {"as_tensor": {"name": "linear"}}, {"as_int": 1}.
/// `type` is the schema's, where there is one: it says what an empty list is one of. Throws Error, naming the node, for
/// lists of mixed kinds and for other values that the schema has no place for.
nlohmann::json argument_json(const Argument& argument, const c10::Type* type, const Node& node);

/// What the nodes of all graphs of a program are written with.
struct GraphContext {
  MetaJson& metas;
  SymText& numbers;
  std::string root_class;              ///< class name of the traced module
  std::vector<RuntimeAssert> asserts;  ///< what the program's own graph checks beside its own nodes
};

/// The schema's Graph. `signature` says what the constant placeholders of the program's own graph are; a subgraph has
/// none.
nlohmann::json graph_json(const Graph& graph, const GraphSignature* signature, const GraphContext& context);

}  // namespace exporters::pt2
