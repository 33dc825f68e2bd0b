#pragma once

#include "exporters/framework/metadata.h"
#include "exporters/trace/trace.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace exporters {

/// The inputs of a call that a component takes. Those that it was not traced with are left out with one warning, so
/// that a tokenizer's whole output can be passed; so are None and the arguments that were constants of the trace.
/// Throws Error for a constant with another value than the traced one: the program could not heed it.
NamedInputs traced_inputs(const ExportMetadata& metadata, const NamedInputs& inputs);

/// The leaves of a call by their dotted paths: "input_ids", "cache.layers.0.keys". The same names serve where a
/// container comes as its parts.
class LeavesByPath {
 public:
  explicit LeavesByPath(const NamedInputs& inputs);

  bool has(const std::string& path) const { return leaves_.contains(path); }
  /// Nothing where the call has no such leaf, or None.
  std::optional<PyTree::Leaf> take(const std::string& path);
  /// The tensor at `path`. Where there is none, an undefined one, and check() will say so. Throws Error for another
  /// kind of leaf.
  at::Tensor take_tensor(const std::string& path);
  /// Throws Error that lists the tensors that were missing, or tensors within containers that nothing took: a cache of
  /// more layers than the traced one.
  void check() const;

 private:
  std::map<std::string, PyTree::Leaf> leaves_;
  std::vector<std::string> missing_;
};

/// Throws Error unless the leaf is the constant that the program was traced with.
void check_constant(const std::string& path, const PyTree::Leaf& given, const Argument& traced);

/// "'a', 'b'"
std::string quoted_names(const std::vector<std::string>& names);

}  // namespace exporters
