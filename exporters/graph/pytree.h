#pragma once

#include "exporters/graph/tree_spec.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace exporters {

/// A nested value as a forward takes and returns it: a leaf (tensor, nothing, bool, int, float, string) or a container
/// with a type, a context and children, as TreeSpec has them. A ModelOutput is a container whose type is the
/// reference's class ("transformers.modeling_outputs.BaseModelOutput") and whose context lists its fields.
class PyTree {
 public:
  using Leaf = std::variant<std::monostate, at::Tensor, bool, int64_t, double, std::string>;

  PyTree() = default;                                     ///< None
  PyTree(at::Tensor value) : leaf_(std::move(value)) {}   // NOLINT(google-explicit-constructor)
  PyTree(bool value) : leaf_(value) {}                    // NOLINT
  PyTree(int64_t value) : leaf_(value) {}                 // NOLINT
  PyTree(double value) : leaf_(value) {}                  // NOLINT
  PyTree(std::string value) : leaf_(std::move(value)) {}  // NOLINT

  static PyTree tuple(std::vector<PyTree> children);
  static PyTree list(std::vector<PyTree> children);
  static PyTree dict(std::vector<std::pair<std::string, PyTree>> items);
  /// A ModelOutput-like object: named fields; those that are None are left out, as the reference does.
  static PyTree object(std::string type, std::vector<std::pair<std::string, PyTree>> fields);
  /// Any registered container: type, context (JSON text), children.
  static PyTree node(std::string type, std::string context, std::vector<PyTree> children);

  bool is_leaf() const { return type_.empty(); }
  bool is_none() const { return is_leaf() && std::holds_alternative<std::monostate>(leaf_); }
  bool is_tensor() const { return is_leaf() && std::holds_alternative<at::Tensor>(leaf_); }
  const Leaf& leaf() const { return leaf_; }
  /// Throws Error when the value is not a tensor.
  const at::Tensor& tensor() const;
  const std::string& type() const { return type_; }
  const std::string& context() const { return context_; }
  const std::vector<PyTree>& children() const { return children_; }

  /// The child of that key (dict, object) or index ("2"), or null.
  const PyTree* find(std::string_view key) const;
  /// The value at a dotted path: at("hidden_states.2"). Throws Error that lists the keys there are.
  const PyTree& at(std::string_view path) const;

  TreeSpec spec() const;
  std::vector<Leaf> flatten() const;
  /// Tensor leaves with their dotted paths, in leaf order.
  std::vector<std::pair<std::string, at::Tensor>> tensors() const;
  /// Throws Error when the number of leaves is not the spec's.
  static PyTree unflatten(const TreeSpec& spec, std::vector<Leaf> leaves);

 private:
  Leaf leaf_;
  std::string type_;
  std::string context_;
  std::vector<PyTree> children_;
};

}  // namespace exporters
