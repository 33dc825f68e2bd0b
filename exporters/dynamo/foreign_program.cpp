#include "exporters/dynamo/foreign_program.h"

#include "exporters/fake/infer.h"
#include "exporters/fake/registry.h"
#include "exporters/graph/calls.h"
#include "exporters/graph/op_name.h"
#include "exporters/passes/op_facts.h"
#include "exporters/passes/retrace.h"
#include "exporters/support/error.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>
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

// Calls for lists of tensors check these as the op for one does; `set_` takes over what another tensor of the program
// shows, unlike its overloads that take a storage, sizes and strides.
bool is_checked(const c10::OperatorName& name) {
  return name.name.starts_with("aten::_foreach_") ||
         (name.name == "aten::set_" && name.overload_name == "source_Tensor");
}

// In-place ops and copies of views have the shape function of the op that they are named after.
bool has_shape_function(const c10::OperatorName& name) {
  const auto known = [](const std::optional<c10::OperatorName>& op) {
    return op.has_value() && find_shape_function(*op) != nullptr;
  };
  return known(name) || known(functional_name(name)) || known(copied_view(name));
}

bool is_known(const std::string& target) {
  const c10::OperatorHandle op = lookup_operator(target);
  return has_shape_function(op.operator_name()) || is_harmless_composite(op) || is_checked(op.operator_name());
}

std::vector<std::string> unknown_ops(const Graph& graph) {
  std::set<std::string> seen;
  std::vector<std::string> unknown;
  for_each_call(graph, [&](const Node& call) {
    if (is_dispatcher_target(call.target()) && seen.insert(call.target()).second && !is_known(call.target())) {
      unknown.push_back(call.describe());
    }
  });
  return unknown;
}

}  // namespace

void refuse_unknown_ops(const ExportedProgram& program) {
  const std::vector<std::string> unknown = unknown_ops(*program.graph);
  if (!unknown.empty()) {
    throw Error(fmt::format("the program calls ops that a file may not ask for: {}", fmt::join(unknown, ", ")), {},
                "If an op is safe with any argument, register_shape_function makes it known; a program that you build "
                "in memory is not restricted.");
  }
}

void refuse_false_metadata(const ExportedProgram& program) {
  const DecompositionTable none(/*composites=*/false);
  try {
    try {
      retrace(program, none);
    } catch (const Error&) {
      if (is_functional(*program.graph)) {
        throw;
      }
      // Shape functions do not follow every write (an out= that resizes): then in functional form.
      retrace(functional_form(program, core_aten_decompositions()), none);
    }
  } catch (const Error& error) {
    throw error.with_context("the file's own account of its values");
  }
}

}  // namespace exporters
