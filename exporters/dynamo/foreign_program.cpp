#include "exporters/dynamo/foreign_program.h"

#include "exporters/fake/registry.h"
#include "exporters/graph/graph.h"
#include "exporters/graph/op_name.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace exporters {
namespace {

// An op that only calls others is as safe as they are with the strided tensors of a program. Not so those that make
// tensors of other layouts from parts that nobody checks (aten::_sparse_csr_tensor_unsafe).
bool is_harmless_composite(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         name.find("sparse") == std::string::npos && name.find("unsafe") == std::string::npos &&
         name.find("quant") == std::string::npos;
}

// In-place ops and copies of views have the shape function of the op that they are named after.
bool has_shape_function(c10::OperatorName name) {
  constexpr std::string_view kCopy = "_copy";
  if (find_shape_function(name) != nullptr) {
    return true;
  }
  if (name.name.ends_with(kCopy)) {
    name.name.resize(name.name.size() - kCopy.size());
  } else if (name.name.ends_with('_')) {
    name.name.pop_back();
  } else {
    return false;
  }
  return find_shape_function(name) != nullptr;
}

bool is_known(const std::string& target) {
  const c10::OperatorHandle op = lookup_operator(target);
  return has_shape_function(op.operator_name()) || is_harmless_composite(op);
}

class Search {
 public:
  void visit(const Graph& graph) {
    for (const Node& node : graph) {
      if (node.kind() != Node::Kind::kCall) {
        continue;
      }
      if (is_dispatcher_target(node.target()) && seen_.insert(node.target()).second && !is_known(node.target())) {
        unknown_.push_back(node.describe());
      }
      for (const Argument& argument : node.args()) {
        if (const auto* subgraph = argument.get_if<GraphArgument>();
            subgraph != nullptr && subgraph->graph != nullptr) {
          visit(*subgraph->graph);
        }
      }
    }
  }

  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  std::set<std::string> seen_;
  std::vector<std::string> unknown_;
};

}  // namespace

void refuse_unknown_ops(const ExportedProgram& program) {
  Search search;
  search.visit(*program.graph);
  if (!search.unknown().empty()) {
    throw Error(fmt::format("the program calls ops that a file may not ask for: {}", fmt::join(search.unknown(), ", ")),
                {},
                "If an op is safe with any argument, register_shape_function makes it known; a program that you build "
                "in memory is not restricted.");
  }
}

}  // namespace exporters
