#pragma once

#include "exporters/graph/exported_program.h"
#include "exporters/graph/pytree.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace exporters {

/// What export.json says of one component, as the reference writes and reads it.
struct ExportMetadata {
  /// A traced forward argument: a tensor's rank, shape and dtype, a mapping's leaves, or a container's type name.
  struct Kwarg {
    std::string name;
    PyTree sample;            ///< as it was traced; leaves of a loaded export are None
    std::string description;  ///< JSON text of the entry
  };

  std::string architecture;  ///< class name of the traced module
  std::vector<std::pair<std::string, std::string>> packages;
  std::string export_config = "{}";  ///< JSON text
  std::string export_dtype;          ///< "float32"; empty where the module has no floating parameter
  std::string export_device = "cpu";
  std::vector<Kwarg> kwargs;
  TreeSpec in_spec;
  TreeSpec out_spec;
  /// Arguments that are no tensors, by name: None, bool, int, float, string.
  std::vector<std::pair<std::string, PyTree::Leaf>> in_constants;
  /// Leaves of out_spec that the program does not compute, by leaf index.
  std::vector<std::pair<size_t, PyTree::Leaf>> out_constants;

  /// Names that a call may pass.
  bool takes(std::string_view name) const;

  nlohmann::ordered_json to_json() const;
  /// Throws Error, naming the field, for what is missing or of another type. Unknown keys are ignored.
  static ExportMetadata from_json(const nlohmann::json& value, const std::string& where);
};

/// A constant of a graph as a leaf of a nested value. Throws Error for one that is neither None, bool, number nor
/// string.
PyTree::Leaf constant_leaf(const Argument& constant);

/// The user output leaves that are constants, by leaf index.
std::vector<std::pair<size_t, PyTree::Leaf>> constant_outputs(const ExportedProgram& program);

/// Fills what follows from the sample inputs: kwargs, in_constants, in_spec.
void describe_inputs(ExportMetadata& metadata, const std::vector<std::pair<std::string, PyTree>>& inputs);

}  // namespace exporters
